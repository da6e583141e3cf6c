// SPDX-License-Identifier: Apache-2.0
//
// What an ELF file, or the debug data that belongs to it, says about addresses.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct elf_file;

struct elf_symbol {
    const char *function;    // as in the file; valid while the file is open
    const char *source_file; // NULL: not known
    int line;                // 0: not known
};

#define ELF_SYMBOLS_MAX 64 // functions inlined into each other

// Opens `path`. `build_id` (hex, "": any) must be the file's. `debug_path` is a list of folders,
// separated by colons, where debug data of stripped files is looked for. NULL: it is not there, no
// ELF file, or another one.
struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path);

// The functions at `address` (as the file counts), innermost first; those but the last are inlined
// into the next. Returns how many; 0: nothing is known.
size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX]);

struct elf_file *elf_file_free(struct elf_file *file);
