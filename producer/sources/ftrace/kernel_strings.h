// SPDX-License-Identifier: Apache-2.0
//
// The meaning of addresses in records: constant texts of the kernel (printk_formats) and names of
// its functions (kallsyms).
//
// Function addresses never go into a trace, so that it does not reveal where the kernel is loaded.
// Each address gets a number. Its name goes into InternedData.kernel_symbols under that number.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/ground/kernel_functions.h"
#include "producer/ground/proc_text.h"

// All zero is empty.
struct kernel_strings {
    struct map64 by_address; // to the offset in `text`
    struct strbuf text;      // terminated texts in a row
};

// Parses `0xADDRESS : "text"` lines and skips all others. Returns 0 or -ENOMEM.
int kernel_strings_parse(struct kernel_strings *strings, const char *text, size_t size);
void kernel_strings_done(struct kernel_strings *strings);

static inline const char *kernel_strings_find(const struct kernel_strings *strings,
                                              uint64_t address)
{
    const uint64_t *offset = map64_find(&strings->by_address, address);
    return offset ? strings->text.text + *offset : NULL;
}

VEC_DEFINE(kernel_addresses, uint64_t);

// From this number on, the caller calls kernel_symbols_forget_numbers() as soon as it can.
#define KERNEL_SYMBOLS_NUMBERS_MAX 65536

// All zero: numbers addresses but knows no names.
struct kernel_symbols {
    struct map64 numbers;               // of addresses, from 1
    struct kernel_addresses in_order;   // address of number i + 1
    struct kernel_functions *functions; // NULL: no names
};

// Returns the number of `address`; 0 for address 0 and if memory ran out.
uint32_t kernel_symbols_number(struct kernel_symbols *symbols, uint64_t address);

// Numbers restart at 1. Names stay.
void kernel_symbols_forget_numbers(struct kernel_symbols *symbols);

// Returns the name of the function that contains `address`, without its module, or an empty span.
struct span kernel_symbols_name(const struct kernel_symbols *symbols, uint64_t address);

void kernel_symbols_done(struct kernel_symbols *symbols);
