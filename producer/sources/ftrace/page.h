// SPDX-License-Identifier: Apache-2.0
//
// Reader of one sub-buffer of the kernel's ring buffer, as read from trace_pipe_raw: its records
// and their times.
//
//     u64 timestamp                 of the first record; deltas count from here
//     long commit                   bytes of records; bit 31: events were lost before this page,
//                                   bit 30: their number stands after the records
//     records                       each a u32 header: type_len in 5 bits, time delta in 27
//
// type_len 1..28: 4 * type_len bytes of data; 0: a u32 with the length (counting itself), then the
// data; 29: padding, a u32 with its length; 30: a u32 with the delta's upper bits; 31: a u32 with
// the upper bits of an absolute time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "producer/sources/ftrace/format.h"

// Values of FtraceParseStatus.
enum page_status {
    PAGE_OK = 1,
    PAGE_READ_ERROR = 2,
    PAGE_PARTIAL_READ = 3,
    PAGE_BAD_HEADER = 4,
    PAGE_SHORT_EVENT_HEADER = 5,
    PAGE_NULL_PADDING = 6,
    PAGE_SHORT_PADDING_LENGTH = 7,
    PAGE_BAD_PADDING_LENGTH = 8,
    PAGE_SHORT_TIME_EXTEND = 9,
    PAGE_SHORT_TIME_STAMP = 10,
    PAGE_SHORT_DATA_LENGTH = 11,
    PAGE_ZERO_DATA_LENGTH = 12,
    PAGE_BAD_DATA_LENGTH = 13,
    PAGE_SHORT_EVENT_ID = 14,
    PAGE_END_OVERFLOW = 15,
    PAGE_SHORT_COMPACT_EVENT = 16,
    PAGE_BAD_EVENT = 17,
};

#define PAGE_STATUSES  18
#define PAGE_WORDS_MAX 28 // of a record with its length in the header

struct page_record {
    const uint8_t *data; // borrowed from the page; begins with the u16 event id
    uint32_t size;       // at least 2
    uint16_t id;
    uint64_t timestamp;
};

struct page_reader {
    const uint8_t *pos, *end;
    uint64_t timestamp;
    bool lost;       // events were lost before the first record
    uint64_t n_lost; // their number, if the kernel gives it; otherwise 0
    enum page_status status;
};

// Starts on the page in `bytes`. Returns false (status PAGE_BAD_HEADER) if its header is malformed.
bool page_open(struct page_reader *page, const struct page_layout *layout, const void *bytes,
               size_t size);

// Returns the bytes of records by the page's header. `bytes` has at least 12 bytes.
size_t page_used(const void *bytes);

bool page_next_slow(struct page_reader *page, struct page_record *ret);

// Reads the next record with data. Returns false at the end (status PAGE_OK) and at damage, which
// ends the page. Nearly all records have their length in the header; these are read inline.
static inline bool page_next(struct page_reader *page, struct page_record *ret)
{
    const uint8_t *pos = page->pos;
    size_t left = (size_t)(page->end - pos);
    uint32_t header;
    if (left < sizeof(header))
        return page_next_slow(page, ret);
    memcpy(&header, pos, sizeof(header));
    uint32_t size = header % 32 * 4;
    if (size - 4 > 4 * PAGE_WORDS_MAX - 4 || size > left - sizeof(header))
        return page_next_slow(page, ret);
    pos += sizeof(header);
    page->timestamp += header / 32;
    page->pos = pos + size;
    ret->data = pos;
    ret->size = size;
    memcpy(&ret->id, pos, sizeof(ret->id));
    ret->timestamp = page->timestamp;
    return true;
}
