// SPDX-License-Identifier: Apache-2.0
//
// The function names of one 64-bit ELF file, by address as in its symbol table. The file is
// untrusted input: all sizes are bounded, and nothing stays mapped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 64

struct elf_symbol {
    uint64_t start, size; // size 0: up to the next symbol
    uint32_t name;        // offset in the strings
};

struct elf_symbols {
    struct elf_symbol *items; // owned, by `start`
    size_t n;
    char *strings; // owned, terminated
    size_t strings_size;
    bool is_whole; // .symtab was read, so static functions are included
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_size; // 0: the file has none
};

// The place of a file's code. The address of code in the symbol table is its offset in the file
// plus `load_bias`.
struct elf_code {
    uint64_t load_bias;
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_size; // 0: the file has none
};

// Reads the program headers, which stripped files have, too. `fd` is borrowed. Returns 0 or a
// negative errno.
int elf_code_read(int fd, struct elf_code *ret);

#define ELF_TABLE_MAX (UINT64_C(256) << 20)

// Reads .symtab, or .dynsym if there is no .symtab. `fd` is borrowed. Returns 0 or a negative
// errno: -ENOEXEC if the file is not a 64-bit ELF file with symbols, -EFBIG if its symbols or their
// names take more than `table_max` bytes (at most ELF_TABLE_MAX).
int elf_symbols_read(int fd, uint64_t table_max, struct elf_symbols *ret);
// Reads the exported symbols only (.dynsym).
int elf_exports_read(int fd, uint64_t table_max, struct elf_symbols *ret);
// Returns the bytes of memory that the symbols take.
uint64_t elf_symbols_bytes(const struct elf_symbols *symbols);
void elf_symbols_done(struct elf_symbols *symbols);

// Returns the name of the function at `address`, or NULL. The name is valid as long as `symbols`.
const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address);
// Returns the function `name`, or NULL.
const struct elf_symbol *elf_symbols_named(const struct elf_symbols *symbols, const char *name);
