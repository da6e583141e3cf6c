// SPDX-License-Identifier: Apache-2.0
//
// An SQLite file as a row of pages, written once from front to back. Format:
// https://www.sqlite.org/fileformat2.html
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES 4096

struct pages {
    int fd;            // borrowed
    uint8_t *buffer;   // owned: pages that are not written yet
    size_t n_buffered; // pages
    uint32_t next;     // number of the next page to be added
    int failure;       // negative errno of the first failure
};

// Page 1 is left out until pages_finish(). 0 or -ENOMEM.
int pages_init(struct pages *pages, int fd);

// The page's number. After a failure nothing is written; see ->failure.
uint32_t pages_add(struct pages *pages, const uint8_t *page);

// The number that the next page but `n` will have.
uint32_t pages_number(const struct pages *pages, uint32_t n);

// Writes what is left, and page 1: an empty schema. 0 or a negative errno.
int pages_finish(struct pages *pages, uint32_t application_id);
void pages_done(struct pages *pages);

static inline void put_u16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static inline void put_u32(uint8_t *to, uint32_t value)
{
    put_u16(to, value >> 16);
    put_u16(to + 2, value);
}
