// SPDX-License-Identifier: Apache-2.0
//
// Names of the functions of one file (64-bit ELF), by address as its symbol table has it. The file
// is outside input: all sizes are bounded, nothing stays mapped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 64

struct elf_symbol {
    uint64_t start, size; // size 0: up to the next
    uint32_t name;        // offset in the strings
};

struct elf_symbols {
    struct elf_symbol *items; // owned, by `start`
    size_t n;
    char *strings; // owned, terminated
    size_t strings_size;
    bool is_whole; // .symtab: static functions are in it
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_size; // 0: the file has none
};

#define ELF_TABLE_MAX (UINT64_C(256) << 20)

// Reads .symtab, or .dynsym where there is no other. 0, or a negative errno: -ENOEXEC for what is
// no such file, -EFBIG where its symbols or their names take more than `table_max` bytes
// (ELF_TABLE_MAX at most). `fd` is borrowed.
int elf_symbols_read(int fd, uint64_t table_max, struct elf_symbols *ret);
// The same of what it exports alone (.dynsym).
int elf_exports_read(int fd, uint64_t table_max, struct elf_symbols *ret);
// Bytes of memory that they take.
uint64_t elf_symbols_bytes(const struct elf_symbols *symbols);
void elf_symbols_done(struct elf_symbols *symbols);

// NULL: no function is known there. Valid as long as `symbols`.
const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address);
