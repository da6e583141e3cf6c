// SPDX-License-Identifier: Apache-2.0
//
// Code in which a thread may hold something that dlopen() needs: a lock of the allocator, of the
// loader or of the list of threads, or memory that is half initialised. A thread that has this code
// on its stack must be left alone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/elf_symbols.h"

#define UNSAFE_RANGES_MAX 512

struct unsafe_code {
    struct {
        uint64_t start, end;
    } ranges[UNSAFE_RANGES_MAX];
    size_t n;
    bool is_full; // not all ranges found room: then no code counts as safe
};

void unsafe_code_add(struct unsafe_code *code, uint64_t start, uint64_t end);

// Adds the functions of glibc. `symbols` are its exported symbols, `base` is its load address.
void unsafe_code_add_libc(struct unsafe_code *code, const struct elf_symbols *symbols,
                          uint64_t base);

bool unsafe_code_has(const struct unsafe_code *code, uint64_t pc);
