// SPDX-License-Identifier: Apache-2.0
//
// libdw reports the file as a module at address 0, so that addresses in it are those that the file
// itself counts by. Debug data is preferred; where there is none, the symbol table gives at least
// the name of the function.
#include "converter/symbols/elf_file.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"

#define BUILD_ID_BYTES_MAX 64

struct elf_file {
    Dwfl *dwfl; // owned
    Dwfl_Module *module;
    Dwfl_Callbacks callbacks;
    char *debug_path; // owned
};

struct elf_file *elf_file_free(struct elf_file *file)
{
    if (!file)
        return NULL;
    dwfl_end(file->dwfl);
    free(file->debug_path);
    free(file);
    return NULL;
}

static bool build_id_is(Dwfl_Module *module, const char *wanted)
{
    const unsigned char *bits;
    GElf_Addr address;
    char text[2 * BUILD_ID_BYTES_MAX + 1];
    int n = dwfl_module_build_id(module, &bits, &address);
    if (!*wanted)
        return true;
    if (n <= 0 || n > BUILD_ID_BYTES_MAX)
        return false;
    for (int i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    return strcasecmp(text, wanted) == 0;
}

struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path)
{
    struct elf_file *file = calloc(1, sizeof(*file));
    if (!file || !(file->debug_path = strdup(debug_path)))
        return elf_file_free(file);
    file->callbacks = (Dwfl_Callbacks){
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &file->debug_path,
    };
    GElf_Addr bias;
    file->dwfl = dwfl_begin(&file->callbacks);
    if (!file->dwfl)
        return elf_file_free(file);
    dwfl_report_begin(file->dwfl);
    file->module = dwfl_report_elf(file->dwfl, "file", path, -1, 0, true);
    if (dwfl_report_end(file->dwfl, NULL, NULL) != 0 || !file->module ||
        !dwfl_module_getelf(file->module, &bias) || !build_id_is(file->module, build_id))
        return elf_file_free(file);
    return file;
}

// The linker's name says more than the plain one: it has the arguments' types.
static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    return name ? name : dwarf_diename(die);
}

// Where `die` was inlined: the line of the call.
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

static size_t scopes_walk(Dwarf_Die *scopes, int n_scopes, Dwarf_Die *unit, struct elf_symbol place,
                          struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    size_t n = 0;
    for (int i = 0; i < n_scopes && n < ELF_SYMBOLS_MAX; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
            continue;
        place.function = function_name(&scopes[i]);
        if (place.function)
            ret[n++] = place;
        if (tag == DW_TAG_subprogram)
            break;
        call_place(&scopes[i], unit, &place);
    }
    return n;
}

// Functions by debug data.
static size_t debug_lookup(struct elf_file *file, uint64_t address,
                           struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(file->module, address, &bias), *outer = NULL;
    CLEANUP(freep) Dwarf_Die *scopes = NULL;
    CLEANUP(freep) Dwarf_Die *nested = NULL;
    if (!unit || dwarf_getscopes(unit, address - bias, &scopes) <= 0)
        return 0;
    int n_nested = dwarf_getscopes_die(&scopes[0], &outer);
    nested = outer;
    struct elf_symbol place = {0};
    Dwfl_Line *line = dwfl_module_getsrc(file->module, address);
    if (line)
        place.source_file = dwfl_lineinfo(line, NULL, &place.line, NULL, NULL, NULL);
    return n_nested > 0 ? scopes_walk(nested, n_nested, unit, place, ret) : 0;
}

size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    size_t n = debug_lookup(file, address, ret);
    if (n)
        return n;
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name =
        dwfl_module_addrinfo(file->module, address, &offset, &symbol, NULL, NULL, NULL);
    // Beyond the symbol's end it is only the nearest one.
    if (!name || !*name || (symbol.st_size && offset >= symbol.st_size))
        return 0;
    ret[0] = (struct elf_symbol){.function = name};
    return 1;
}

#else

struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path)
{
    (void)path;
    (void)build_id;
    (void)debug_path;
    return NULL;
}

size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX])
{
    (void)file;
    (void)address;
    (void)ret;
    return 0;
}

struct elf_file *elf_file_free(struct elf_file *file)
{
    (void)file;
    return NULL;
}

#endif
