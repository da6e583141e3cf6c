// SPDX-License-Identifier: Apache-2.0
//
// What addresses in records mean: constant texts of the kernel (printk_formats) and the names of
// its functions (kallsyms).
//
// Addresses of functions never go into a trace, so that it does not tell where the kernel lies:
// each address gets a number, and its name goes into InternedData.kernel_symbols under that number.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"

// All zero is an empty one.
struct kernel_strings {
    struct map64 by_address; // to the offset in `text`
    struct strbuf text;      // terminated texts one after the other
};

// Parses `0xADDRESS : "text"` lines; others are passed over. 0 or -ENOMEM.
int kernel_strings_parse(struct kernel_strings *strings, const char *text, size_t size);
void kernel_strings_done(struct kernel_strings *strings);

static inline const char *kernel_strings_find(const struct kernel_strings *strings,
                                              uint64_t address)
{
    const uint64_t *offset = map64_find(&strings->by_address, address);
    return offset ? strings->text.text + *offset : NULL;
}

struct kernel_symbol {
    uint64_t address;
    uint32_t name; // offset in `names`
};

VEC_DEFINE(kernel_symbol_list, struct kernel_symbol);
VEC_DEFINE(kernel_addresses, uint64_t);

// Beyond so many, kernel_symbols_forget_numbers() should be called where that is possible.
#define KERNEL_SYMBOLS_NUMBERS_MAX 65536

// All zero is an empty one: it numbers addresses but knows no names.
struct kernel_symbols {
    struct map64 numbers;             // of addresses, from 1
    struct kernel_addresses in_order; // address of number i + 1
    struct kernel_symbol_list list;   // by address
    struct strbuf names;
};

// The number of `address`; 0 for address 0 and when memory is out.
uint32_t kernel_symbols_number(struct kernel_symbols *symbols, uint64_t address);

// Numbers begin at 1 again. Names stay.
void kernel_symbols_forget_numbers(struct kernel_symbols *symbols);

// Reads functions (types t, T, w, W) from kallsyms text at `path`. 0, -ENOMEM, -EPERM (the kernel
// shows no addresses), or what reading said.
int kernel_symbols_load(struct kernel_symbols *symbols, const char *path, struct err *err);

// The function that contains `address`, or NULL.
const char *kernel_symbols_name(const struct kernel_symbols *symbols, uint64_t address);

void kernel_symbols_done(struct kernel_symbols *symbols);
