// SPDX-License-Identifier: Apache-2.0
//
// An SQLite file as a sequence of pages, written once from front to back. Format:
// https://www.sqlite.org/fileformat2.html
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/ground/budget.h"

#define PAGE_BYTES 4096

// The first byte of a table's leaf page, and the offset of the header field with the start of the
// rows.
#define PAGE_LEAF       0x0d
#define PAGE_CONTENT_AT 5

VEC_DEFINE(page_vec, uint32_t);

struct pages {
    int fd;                // borrowed
    uint8_t *buffer;       // owned: pages that are not written yet
    size_t n_buffered;     // pages
    uint32_t next;         // number of the next page to be added
    int failure;           // negative errno of the first failure
    struct page_vec free;  // pages that are not used any more
    struct budget *budget; // borrowed; NULL: none
};

// Prepares for pages. `first`: number of the first page to add. In a new file, `first` is 2,
// because pages_finish() writes page 1. Returns 0 or -ENOMEM.
int pages_init(struct pages *pages, int fd, uint32_t first);

// Adds a page and returns its number. After a failure, nothing is written; see ->failure.
uint32_t pages_add(struct pages *pages, const uint8_t *page);

// Returns the number that a page gets if `n` other pages are added before it.
uint32_t pages_number(const struct pages *pages, uint32_t n);

// Overwrites a page of the file.
void pages_replace(struct pages *pages, uint32_t number, const uint8_t *page);

// Reads an added page back. Returns 0 or a negative errno.
int pages_read(struct pages *pages, uint32_t number, uint8_t *ret);

// Gives up an added page, so that its place can be reused. Returns 0 or a negative errno.
int pages_free(struct pages *pages, uint32_t number);

// Adds a page, in the place of a page that was given up, if possible. Returns its number.
uint32_t pages_put(struct pages *pages, const uint8_t *page);

// Writes the buffered pages, and page 1 with an empty schema. Returns 0 or a negative errno.
int pages_finish(struct pages *pages, uint32_t application_id);

// Writes the buffered pages into a file that SQLite has made. Page 1 gets the new number of pages
// and a new change counter, so that readers drop their caches. Returns 0 or a negative errno.
int pages_finish_grown(struct pages *pages);
void pages_done(struct pages *pages);

static inline uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

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
