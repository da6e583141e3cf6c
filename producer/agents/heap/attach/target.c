// SPDX-License-Identifier: Apache-2.0
//
// A process in an unsuitable state is refused, and the error names the state: stopped, traced,
// ending, in a strict seccomp jail, another machine type, static, or another C library. Symbols
// come from the process's own files, which may differ from ours.
#include "producer/agents/heap/attach/target.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/ground/maps.h"
#include "producer/heap/elf_symbols.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_owner.h"
#include "producer/heap/heap_program.h"

#define STATUS_MAX ((size_t)64 << 10)
#define MAPS_MAX   ((size_t)64 << 20)
#define CODE_MAX   ((size_t)64 << 20)

static int read_text(int pid, const char *name, size_t max, struct strbuf *ret)
{
    char path[128];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_read_all(fd, max, ret);
}

static const char *status_value(const struct strbuf *status, const char *name)
{
    const char *line = strstr(status->text, name);
    return line ? line + strlen(name) + strspn(line + strlen(name), "\t ") : "";
}

static int check_state(int pid, struct err *err)
{
    struct strbuf status CLEANUP(strbuf_done) = {0};
    int r = read_text(pid, "status", STATUS_MAX, &status);
    if (r < 0)
        return err_set(err, -ESRCH, "there is no such process");
    char state = status_value(&status, "\nState:")[0];
    if (state == 'Z' || state == 'X')
        return err_set(err, -ESRCH, "it has ended");
    if (atoi(status_value(&status, "\nTracerPid:")) != 0)
        return err_set(err, -EALREADY, "a debugger traces it");
    if (state == 'T' || state == 't')
        return err_set(err, -EBUSY, "it is stopped");
    if (atoi(status_value(&status, "\nSeccomp:")) == SECCOMP_MODE_STRICT)
        return err_set(err, -EPERM, "it is in a strict seccomp jail");
    if (!strstr(status.text, "\nVmRSS:"))
        return err_set(err, -EINVAL, "it is a kernel thread, or ending");
    return 0;
}

// After vfork, or with an unknown thread library, two processes share memory: a library loaded into
// one is loaded into the other, too.
static int check_memory_is_its_own(int pid, struct err *err)
{
    struct strbuf status CLEANUP(strbuf_done) = {0};
    int r = read_text(pid, "status", STATUS_MAX, &status);
    int parent = r < 0 ? 0 : atoi(status_value(&status, "\nPPid:"));
    if (parent > 0 && syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0) == 0)
        return err_set(err, -EBUSY,
                       "it is just being started (vfork): its memory is that of process %d",
                       parent);
    return 0;
}

struct object {
    char path[PATH_MAX];
    uint64_t start, end; // of the first mapping
    dev_t device;
    uint64_t inode;
    uint64_t base, code_start, code_end;
};

// Opens the object by its address first, which leads to the right file even if it was replaced on
// disk or is hidden behind another root, but needs privileges. Otherwise opens it by its name,
// unless the name now belongs to another file.
static int open_object(int pid, const struct object *object)
{
    char path[PATH_MAX + 32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, object->start,
             object->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof(path), "/proc/%d/root%s", pid, object->path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 &&
        (fstat(fd, &st) < 0 || (st.st_dev == object->device && st.st_ino != object->inode))) {
        close_fd(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

// Returns whether the name begins with `prefix`. Also matches a copy of the file in a memfd.
static bool is_name_of(const char *name, const char *prefix)
{
    return str_starts_with(str_starts_with(name, "memfd:") ? name + strlen("memfd:") : name,
                           prefix);
}

// Takes the next object of the map; the rest of the map begins at *rest.
static bool next_object(const char **rest, struct object *ret)
{
    *ret = (struct object){0};
    for (const char *line = *rest; line && *line; line = *rest) {
        struct mapping mapping;
        char path[PATH_MAX];
        const char *end = strchr(line, '\n');
        size_t size = end ? (size_t)(end - line) : strlen(line);
        bool is_file =
            mapping_parse(line, size, &mapping) && mapping_get_path(&mapping, path, sizeof(path));
        if (is_file && ret->base && !str_eq(path, ret->path))
            return true;
        *rest = end ? end + 1 : NULL;
        if (!is_file)
            continue;
        if (!ret->base) {
            ret->base = ret->start = mapping.start;
            ret->end = mapping.end;
            ret->device = makedev(mapping.major, mapping.minor);
            ret->inode = mapping.inode;
            memcpy(ret->path, path, sizeof(path));
        }
        if (mapping.permissions[2] == 'x') {
            ret->code_start = ret->code_start ? ret->code_start : mapping.start;
            ret->code_end = mapping.end;
        }
    }
    return ret->base != 0;
}

// Finds the first object with code whose file name begins with `prefix`. Returns false if no object
// of this name has code: then *ret is the last object of this name, or empty.
static bool find_object(const struct strbuf *maps, const char *prefix, struct object *ret)
{
    struct object object;
    *ret = (struct object){0};
    for (const char *rest = maps->text; next_object(&rest, &object);) {
        if (!is_name_of(strrchr(object.path, '/') + 1, prefix))
            continue;
        *ret = object;
        if (object.code_end)
            return true;
    }
    return false;
}

static int find_syscall(int pid, uint64_t start, size_t size, uint64_t *ret)
{
    char path[64];
    uint8_t code[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    size = size < sizeof(code) ? size : sizeof(code);
    if (fd < 0)
        return -errno;
    if (pread(fd, code, size, (off_t)start) != (ssize_t)size)
        return -EIO;
    for (size_t i = 0; i + 2 < size; i++) {
        if (code[i] == 0x0f && code[i + 1] == 0x05 && code[i + 2] == 0xc3) {
            *ret = start + i;
            return 0;
        }
    }
    return -ENOENT;
}

// The code of the C library that signal handlers return to. This code has no exported symbol.
static const uint8_t sigreturn_code[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};

static int find_sigreturn(int pid, const struct target_range *libc, uint64_t *ret)
{
    char path[64];
    size_t size = (size_t)(libc->end - libc->start);
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *code = size < CODE_MAX ? malloc(size) : NULL;
    const uint8_t *found = NULL;
    if (fd >= 0 && code && pread(fd, code, size, (off_t)libc->start) == (ssize_t)size)
        found = memmem(code, size, sigreturn_code, sizeof(sigreturn_code));
    if (found)
        *ret = libc->start + (uint64_t)(found - code);
    free(code);
    return found ? 0 : -ENOENT;
}

static bool is_libc(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    return is_name_of(name, "libc.so.6") || is_name_of(name, "libc-2.");
}

// Returns whether the process has loaded the C library several times (dlmopen). Each copy has its
// code at the same offset of the file.
static bool has_several_libcs(const struct strbuf *maps, const struct object *libc)
{
    uint64_t offset = 0;
    bool found = false;
    for (const char *line = maps->text; *line; line += strcspn(line, "\n"), line += *line != 0) {
        struct mapping mapping;
        char path[PATH_MAX];
        if (!mapping_parse(line, strcspn(line, "\n"), &mapping) || mapping.permissions[2] != 'x' ||
            !mapping_get_path(&mapping, path, sizeof(path)) || !is_libc(path))
            continue;
        if (found && (mapping.offset == offset || !str_eq(path, libc->path)))
            return true;
        offset = found ? offset : mapping.offset;
        found = true;
    }
    return false;
}

static int read_libc(struct target *target, const struct object *libc, struct err *err)
{
    const struct elf_symbols *symbols = &target->libc_exports;
    int fd CLEANUP(close_fdp) = open_object(target->pid, libc);
    int r = fd < 0 ? -errno : elf_exports_read(fd, ELF_TABLE_MAX, &target->libc_exports);
    if (r < 0)
        return err_errno(err, r, "%s", libc->path);
    unsafe_code_add_libc(&target->unsafe, symbols, libc->base);
    const struct elf_symbol *open = elf_symbols_named(symbols, "dlopen");
    const struct elf_symbol *getppid = elf_symbols_named(symbols, "getppid");
    if (!open)
        return err_set(err, -EOPNOTSUPP, "its C library is older than 2.34");
    target->libc_base = libc->base;
    target->dlopen_address = libc->base + open->start;
    if (!getppid ||
        find_syscall(target->pid, libc->base + getppid->start, getppid->size,
                     &target->syscall_address) < 0 ||
        find_sigreturn(target->pid, &target->libc, &target->sigreturn_address) < 0)
        return err_set(err, -EOPNOTSUPP, "its C library is not as expected, or is not readable");
    return 0;
}

// Returns whether the file exports an allocator, or has no readable exports.
static bool may_be_allocator(int fd)
{
    struct elf_symbols symbols CLEANUP(elf_symbols_done) = {0};
    return elf_exports_read(fd, ELF_TABLE_MAX, &symbols) < 0 ||
           elf_symbols_named(&symbols, "malloc");
}

static int check_program(struct target *target, struct err *err)
{
    char path[64];
    Elf64_Ehdr header;
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/exe", target->pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "its program");
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != EM_X86_64)
        return err_set(err, -ENOEXEC, "its program is of another machine type");
    target->entry = header.e_entry;
    target->has_allocator = may_be_allocator(fd);
    if (fstat(fd, &st) == 0) {
        target->device = st.st_dev;
        target->inode = st.st_ino;
    }
    target->obstacle = heap_program_obstacle(fd);
    return 0;
}

static bool is_same_file(int pid, const char *path)
{
    struct stat here, there;
    char below[PATH_MAX];
    int n = snprintf(below, sizeof(below), "/proc/%d/root%s", pid, path);
    return n > 0 && (size_t)n < sizeof(below) && stat(path, &here) == 0 &&
           stat(below, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

static bool is_abandoned(int pid, const struct strbuf *maps)
{
    char path[64];
    struct object ring;
    struct heap_header header;
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    find_object(maps, HEAP_RING_NAME, &ring); // the ring has no code
    return ring.base && fd >= 0 &&
           pread(fd, &header, sizeof(header), (off_t)ring.base) == (ssize_t)sizeof(header) &&
           header.magic == HEAP_ABI_MAGIC && header.version == HEAP_ABI_VERSION &&
           heap_owner_is_gone("/proc", &header.owner);
}

// Adds the allocator's functions in the program itself, as far as the program exports them.
static void find_allocator_inside(struct target *target, const struct object *program)
{
    struct elf_symbols symbols CLEANUP(elf_symbols_done) = {0};
    Elf64_Ehdr header;
    int fd CLEANUP(close_fdp) = open_object(target->pid, program);
    if (fd < 0 || pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        elf_exports_read(fd, ELF_TABLE_MAX, &symbols) < 0)
        return;
    unsafe_code_add_libc(&target->unsafe, &symbols, header.e_type == ET_EXEC ? 0 : program->base);
}

// The heap library calls libunwind, which has locks.
static bool is_unwinder(const struct object *object)
{
    return is_name_of(strrchr(object->path, '/') + 1, "libunwind");
}

// Finds allocators other than glibc's, and libunwind. Nothing is known about their functions. A
// library that cannot be opened, or has no readable exports, may be an allocator.
static void find_allocators(struct target *target, const struct strbuf *maps)
{
    struct object object;
    for (const char *rest = maps->text; next_object(&rest, &object);) {
        bool is_program = object.device == target->device && object.inode == target->inode;
        if (is_program && target->has_allocator)
            find_allocator_inside(target, &object);
        if (!object.code_end || object.code_start == target->libc.start || is_program)
            continue;
        int fd CLEANUP(close_fdp) = open_object(target->pid, &object);
        if (fd < 0 || is_unwinder(&object) || may_be_allocator(fd))
            unsafe_code_add(&target->unsafe, object.code_start, object.code_end);
    }
}

// An allocator calls clock_gettime(), which is in the vDSO, where stacks cannot be unwound.
static void find_vdso(struct target *target, const struct strbuf *maps)
{
    struct mapping mapping;
    const char *name = strstr(maps->text, " [vdso]"), *line = name;
    while (line && line > maps->text && line[-1] != '\n')
        line--;
    if (line && mapping_parse(line, (size_t)(name - line), &mapping))
        unsafe_code_add(&target->unsafe, mapping.start, mapping.end);
}

// The kernel writes the auxiliary vector when it has mapped the program and its loader.
static bool is_mapped(int pid)
{
    char path[64];
    uint64_t type = 0;
    snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || (pread(fd, &type, sizeof(type), 0) == (ssize_t)sizeof(type) && type != 0);
}

int target_check(int pid, struct err *err)
{
    int r = check_state(pid, err);
    return r < 0 ? r : check_memory_is_its_own(pid, err);
}

int target_read(int pid, const char *library, struct target *ret, struct err *err)
{
    *ret = (struct target){.pid = pid, .library_fd = -1};
    struct strbuf maps CLEANUP(strbuf_done) = {0};
    struct object object;
    bool is_starting = !is_mapped(pid);
    int r = check_program(ret, err);
    if (r == 0 && read_text(pid, "maps", MAPS_MAX, &maps) < 0)
        r = err_set(err, -EPERM, "its memory map may not be read");
    if (r < 0)
        return r;
    if (!find_object(&maps, "ld-linux", &object))
        return err_set(err, is_starting ? -EAGAIN : -EOPNOTSUPP, "%s",
                       ret->obstacle ? ret->obstacle : "it is a static program, or without glibc");
    unsafe_code_add(&ret->unsafe, object.code_start, object.code_end);
    if (find_object(&maps, HEAP_LIBRARY_FILE, &object)) {
        ret->library_base = object.base;
        if ((ret->library_fd = open_object(pid, &object)) < 0)
            return err_errno(err, -errno, "the %s that is in it", HEAP_LIBRARY_FILE);
        unsafe_code_add(&ret->unsafe, object.code_start, object.code_end);
    }
    if (!find_object(&maps, "libc.so.6", &object) && !find_object(&maps, "libc-2.", &object))
        return err_set(err, -EAGAIN, "it has no glibc");
    if (has_several_libcs(&maps, &object))
        return err_set(err, -EOPNOTSUPP, "it has loaded glibc more than once (dlmopen)");
    ret->libc = (struct target_range){object.code_start, object.code_end};
    find_allocators(ret, &maps);
    find_vdso(ret, &maps);
    ret->same_files = is_same_file(pid, library);
    ret->is_abandoned = is_abandoned(pid, &maps);
    return read_libc(ret, &object, err);
}

int target_find_library(struct target *target)
{
    struct strbuf maps CLEANUP(strbuf_done) = {0};
    struct object object;
    int r = read_text(target->pid, "maps", MAPS_MAX, &maps);
    if (r == 0 && !find_object(&maps, HEAP_LIBRARY_FILE, &object))
        r = -ENOENT;
    if (r == 0)
        target->library_base = object.base;
    return r;
}

bool target_has_library(const struct target *target, const char *name)
{
    struct strbuf maps CLEANUP(strbuf_done) = {0};
    struct object object;
    return read_text(target->pid, "maps", MAPS_MAX, &maps) == 0 &&
           find_object(&maps, name, &object);
}

bool target_may_stop(const struct target *target, int tid)
{
    char name[64];
    struct strbuf status CLEANUP(strbuf_done) = {0};
    snprintf(name, sizeof(name), "task/%d/status", tid);
    return read_text(target->pid, name, STATUS_MAX, &status) == 0 &&
           !strchr("DZX", status_value(&status, "\nState:")[0]) &&
           atoi(status_value(&status, "\nSeccomp:")) != SECCOMP_MODE_STRICT;
}

// Returns the number of seccomp filters of a thread.
static int n_filters_of(const struct target *target, int tid)
{
    char name[64];
    struct strbuf status CLEANUP(strbuf_done) = {0};
    snprintf(name, sizeof(name), "task/%d/status", tid);
    if (read_text(target->pid, name, STATUS_MAX, &status) < 0 ||
        atoi(status_value(&status, "\nSeccomp:")) != SECCOMP_MODE_FILTER)
        return 0;
    int n = atoi(status_value(&status, "\nSeccomp_filters:")); // absent before Linux 5.9
    return n > 0 ? n : 1;
}

int target_n_filters(const struct target *target)
{
    char path[64];
    int n_common = n_filters_of(target, target->pid);
    snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
    DIR *dir CLEANUP(closedirp) = opendir(path);
    for (const struct dirent *entry; dir && n_common >= 0 && (entry = readdir(dir));) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && n_filters_of(target, tid) != n_common && target_may_stop(target, tid))
            n_common = -1;
    }
    return n_common;
}

bool target_is_own_stack(const struct target *target, uint64_t stack_pointer,
                         uint64_t thread_pointer, uint64_t room)
{
    struct line_reader maps;
    struct mapping mapping;
    bool is_own = false;
    if (maps_open(&maps, "/proc", target->pid) < 0)
        return false;
    while (maps_next(&maps, &mapping) > 0) {
        if (stack_pointer < mapping.start || stack_pointer >= mapping.end)
            continue;
        bool is_main = mapping.path_size == strlen("[stack]") &&
                       memcmp(mapping.path, "[stack]", mapping.path_size) == 0;
        is_own = is_main || (thread_pointer > stack_pointer && thread_pointer < mapping.end &&
                             stack_pointer - mapping.start >= room);
        break;
    }
    line_reader_close(&maps);
    return is_own;
}

uint64_t target_symbol(int fd, const char *name)
{
    struct elf_symbols symbols CLEANUP(elf_symbols_done) = {0};
    if (elf_symbols_read(fd, ELF_TABLE_MAX, &symbols) < 0)
        return 0;
    const struct elf_symbol *symbol = elf_symbols_named(&symbols, name);
    return symbol ? symbol->start : 0;
}
