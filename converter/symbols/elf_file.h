// SPDX-License-Identifier: Apache-2.0
//
// Functions and source lines of addresses, from an ELF file or its debug data.
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

// Opens the ELF file `path`. `build_id` (hex, "": any) must be the file's build id. `debug_path`:
// folders with debug data of stripped files, separated by colons. Returns NULL if the file is
// missing, is not an ELF file, or has another build id; and without memory (memory.h). The thread
// that calls these functions may be ended (pthread_exit()) for lack of memory.
struct elf_file *elf_file_open(const char *path, const char *build_id, const char *debug_path);

// Reads the functions at `address` (an address of the file), innermost first; each function but the
// last is inlined into the next. Returns their number; 0: unknown.
size_t elf_file_lookup(struct elf_file *file, uint64_t address,
                       struct elf_symbol ret[ELF_SYMBOLS_MAX]);

struct elf_file *elf_file_free(struct elf_file *file);
