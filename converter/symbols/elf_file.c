// SPDX-License-Identifier: Apache-2.0
//
// libdw gets the file as a module at address 0, so addresses are the file's own addresses. Debug
// data is preferred. Without debug data, the symbol table gives at least the function's name.
//
// A trace names the path, and the file at the path names other files (its debug data). libdw opens
// none of these files: elf_file.c passes open regular ELF files to libdw. libdw itself would wait
// at a FIFO, inflate a packed file into memory, and query servers of debug data.
//
// A refused allocation looks like missing debug data in libdw's results. errno tells the two apart:
// nothing in libdw sets errno to another value after a failed malloc(), but look-ups of files do.
// Where libdw cannot return, it calls a handler, which ends the thread.
#include "converter/symbols/elf_file.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/memory.h"
#include "common/str.h"
#include "converter/symbols/debug_units.h"

#define BUILD_ID_BYTES_MAX 64
#define FILE_BYTES_MAX     ((uint64_t)8 << 30)
#define CHUNK_BYTES        16384
#define NOT_FOUND          (-1)

struct elf_file {
    Dwfl *dwfl; // owned
    Dwfl_Module *module;
    Dwfl_Callbacks callbacks;
    char *debug_path;          // owned
    char *debug_file;          // owned; path of the debug data; NULL: not found yet
    struct debug_units *units; // owned; NULL: no debug data
    Dwarf_Addr bias;           // of the debug data
};

struct elf_file *elf_file_free(struct elf_file *file)
{
    if (!file)
        return NULL;
    debug_units_free(file->units);
    dwfl_end(file->dwfl);
    free(file->debug_path);
    free(file->debug_file);
    free(file);
    return NULL;
}

// Notes that an allocation failed since errno was set to 0.
static void memory_check(void)
{
    if (errno == ENOMEM)
        memory_refused();
    errno = 0;
}

static void id_print(const unsigned char *bits, size_t n, char ret[2 * BUILD_ID_BYTES_MAX + 1])
{
    for (size_t i = 0; i < n; i++)
        snprintf(ret + 2 * i, 3, "%02x", bits[i]);
}

static bool build_id_read(Dwfl_Module *module, char ret[2 * BUILD_ID_BYTES_MAX + 1])
{
    const unsigned char *bits;
    GElf_Addr address;
    int n = dwfl_module_build_id(module, &bits, &address);
    if (n <= 0 || n > BUILD_ID_BYTES_MAX)
        return false;
    id_print(bits, (size_t)n, ret);
    return true;
}

static bool build_id_is(Dwfl_Module *module, const char *wanted)
{
    char text[2 * BUILD_ID_BYTES_MAX + 1];
    return !*wanted || (build_id_read(module, text) && strcasecmp(text, wanted) == 0);
}

// Opens an ELF file. Returns its file descriptor or NOT_FOUND.
static int elf_open(const char *path)
{
    char magic[4] = {0};
    CLEANUP(close_fdp) int fd = open_regular(path, FILE_BYTES_MAX);
    if (fd < 0 || pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
        memcmp(magic, "\177ELF", sizeof(magic)) != 0)
        return NOT_FOUND;
    return steal_fd(&fd);
}

__attribute__((format(printf, 2, 3))) static int debug_open(char **ret_path, const char *format,
                                                            ...)
{
    char *path = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&path, format, args);
    va_end(args);
    int fd = n < 0 ? NOT_FOUND : elf_open(path);
    if (fd >= 0)
        *ret_path = path;
    else if (n >= 0)
        free(path);
    return fd;
}

static bool checksum_is(int fd, uint32_t wanted)
{
    unsigned char chunk[CHUNK_BYTES];
    uLong sum = crc32(0, NULL, 0);
    off_t at = 0;
    for (ssize_t n; (n = pread(fd, chunk, sizeof(chunk), at)) > 0; at += n)
        sum = crc32(sum, chunk, (uInt)n);
    return sum == wanted;
}

// Returns true if the debug file has the build id. Without build ids, the checksum decides.
static bool belongs(int fd, const char *id, uint32_t checksum)
{
    const void *bits = NULL;
    char text[2 * BUILD_ID_BYTES_MAX + 1];
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    ssize_t n = elf ? dwelf_elf_gnu_build_id(elf, &bits) : 0;
    bool has_id = *id && n > 0 && n <= BUILD_ID_BYTES_MAX;
    if (has_id)
        id_print(bits, (size_t)n, text);
    elf_end(elf);
    return has_id ? str_eq(text, id) : checksum_is(fd, checksum);
}

// Opens the debug file that the ELF file names, beside the ELF file or in one of the folders.
static int linked_open(const char *elf_path, const char *folders, const char *name, const char *id,
                       uint32_t checksum, char **ret_path)
{
    const char *slash = strrchr(elf_path, '/');
    int n_folder = slash ? (int)(slash - elf_path) : 0;
    if (!slash || strchr(name, '/'))
        return NOT_FOUND;
    int fd = debug_open(ret_path, "%.*s/.debug/%s", n_folder, elf_path, name);
    if (fd < 0)
        fd = debug_open(ret_path, "%.*s/%s", n_folder, elf_path, name);
    for (const char *at = folders; *at && fd < 0; at += *at == ':') {
        size_t n = strcspn(at, ":");
        fd = debug_open(ret_path, "%.*s%.*s/%s", (int)n, at, n_folder, elf_path, name);
        if (fd < 0)
            fd = debug_open(ret_path, "%.*s/%s", (int)n, at, name);
        at += n;
    }
    if (fd < 0 || belongs(fd, id, checksum))
        return fd;
    close_fd(fd);
    free(STEAL(*ret_path));
    return NOT_FOUND;
}

static int by_build_id_open(const char *folders, const char *id, char **ret_path)
{
    int fd = NOT_FOUND;
    for (const char *at = folders; *at && fd < 0; at += *at == ':') {
        size_t n = strcspn(at, ":");
        fd = debug_open(ret_path, "%.*s/.build-id/%.2s/%s.debug", (int)n, at, id, id + 2);
        at += n;
    }
    return fd;
}

// Opens the common file of several debug files (dwz). Its path is relative to the debug file.
static int common_open(const struct elf_file *file, const char *elf_path, const char *name,
                       char **ret_path)
{
    const char *from = file->debug_file ? file->debug_file : elf_path;
    const char *slash = from ? strrchr(from, '/') : NULL;
    if (*name == '/')
        return debug_open(ret_path, "%s", name);
    return slash ? debug_open(ret_path, "%.*s/%s", (int)(slash - from), from, name) : NOT_FOUND;
}

// Does the work of libdw's own callback, but opens only regular ELF files. A link to a common file
// has no checksum.
static int debug_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                      const char *elf_path, const char *link, GElf_Word checksum, char **ret_path)
{
    (void)name, (void)base;
    struct elf_file *file = *userdata;
    char id[2 * BUILD_ID_BYTES_MAX + 1];
    *ret_path = NULL;
    if (!file)
        return NOT_FOUND;
    memory_check();
    if (link && !checksum)
        return common_open(file, elf_path, link, ret_path);
    if (!build_id_read(module, id))
        *id = '\0';
    int fd = *id ? by_build_id_open(file->debug_path, id, ret_path) : NOT_FOUND;
    if (fd < 0 && link && elf_path)
        fd = linked_open(elf_path, file->debug_path, link, id, checksum, ret_path);
    if (fd >= 0 && !file->debug_file)
        file->debug_file = strdup(*ret_path);
    return fd;
}

static int elf_find_none(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                         char **ret_path, Elf **ret_elf)
{
    (void)module, (void)userdata, (void)name, (void)base, (void)ret_path, (void)ret_elf;
    return NOT_FOUND;
}

__attribute__((noreturn)) static void memory_ran_out(void)
{
    memory_refused();
    pthread_exit(NULL);
}

// Opens the module, and its debug data if there are any. Returns false if the file is not wanted.
static bool module_open(struct elf_file *file, const char *path, const char *build_id)
{
    file->callbacks = (Dwfl_Callbacks){
        .find_elf = elf_find_none,
        .find_debuginfo = debug_find,
        .section_address = dwfl_offline_section_address,
    };
    GElf_Addr bias;
    CLEANUP(close_fdp) int fd = elf_open(path);
    errno = 0;
    file->dwfl = fd < 0 ? NULL : dwfl_begin(&file->callbacks);
    if (!file->dwfl)
        return false;
    dwfl_report_begin(file->dwfl);
    file->module = dwfl_report_elf(file->dwfl, "file", path, fd, 0, true);
    void **userdata = NULL;
    if (file->module) {
        fd = -1; // libdw owns the descriptor now
        dwfl_module_info(file->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
    }
    if (userdata)
        *userdata = file;
    if (dwfl_report_end(file->dwfl, NULL, NULL) != 0 || !file->module ||
        !dwfl_module_getelf(file->module, &bias) || !build_id_is(file->module, build_id))
        return false;
    Dwarf *debug = dwfl_module_getdwarf(file->module, &file->bias);
    if (debug)
        dwarf_new_oom_handler(debug, memory_ran_out);
    if (debug && debug_units_new(debug, &file->units) < 0)
        file->units = NULL; // no lines, but names
    return true;
}

struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path)
{
    struct elf_file *file = memory_calloc(1, sizeof(*file));
    if (!file)
        return NULL;
    file->debug_path = strdup(debug_path);
    if (!file->debug_path) {
        memory_refused();
        return elf_file_free(file);
    }
    bool is_open = module_open(file, path, build_id);
    memory_check();
    return is_open ? file : elf_file_free(file);
}

// Returns the linkage name if possible, because the linkage name has the types of the arguments.
static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    return name ? name : dwarf_diename(die);
}

// Reads the place where `die` is inlined: file and line of the call.
static void call_place(Dwarf_Die *die, Dwarf_Die *unit, struct elf_symbol *ret)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file_index, line;
    Dwarf_Files *files;
    size_t n_files;
    ret->line = 0;
    ret->source_file = NULL;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &line) == 0)
        ret->line = (int)line;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &file_index) == 0 &&
        dwarf_getsrcfiles(unit, &files, &n_files) == 0 && file_index < n_files)
        ret->source_file = dwarf_filesrc(files, file_index, NULL, NULL);
}

// Reads the functions from debug data.
static size_t debug_lookup(struct elf_file *file, uint64_t address,
                           struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    uint64_t own = address - file->bias; // the address in the debug data
    Dwarf_Die unit, scopes[ELF_SYMBOLS_MAX];
    struct elf_symbol place = {0};
    size_t n = 0,
           n_scopes =
               file->units ? debug_units_find(file->units, own, &unit, scopes, ELF_SYMBOLS_MAX) : 0;
    Dwarf_Line *line = n_scopes ? dwarf_getsrc_die(&unit, own) : NULL;
    if (line && dwarf_lineno(line, &place.line) == 0)
        place.source_file = dwarf_linesrc(line, NULL, NULL);
    for (size_t i = 0; i < n_scopes; i++) {
        place.function = function_name(&scopes[i]);
        if (place.function)
            ret[n++] = place;
        call_place(&scopes[i], &unit, &place);
    }
    return n;
}

static size_t lookup(struct elf_file *file, uint64_t address,
                     struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    size_t n = debug_lookup(file, address, ret);
    if (n)
        return n;
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name =
        dwfl_module_addrinfo(file->module, address, &offset, &symbol, NULL, NULL, NULL);
    // If the address is beyond the end of the symbol, the symbol is only the nearest one.
    if (!name || !*name || (symbol.st_size && offset >= symbol.st_size))
        return 0;
    ret[0] = (struct elf_symbol){.function = name};
    return 1;
}

size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    errno = 0;
    size_t n = lookup(file, address, ret);
    memory_check();
    return n;
}

#else

struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path)
{
    (void)path, (void)build_id, (void)debug_path;
    return NULL;
}

size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    (void)file, (void)address, (void)ret;
    return 0;
}

struct elf_file *elf_file_free(struct elf_file *file)
{
    (void)file;
    return NULL;
}

#endif
