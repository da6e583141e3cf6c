// SPDX-License-Identifier: Apache-2.0
//
// Pages are numbered in the order of addition, so the file is written strictly from front to back
// in large pieces. SQLite never uses the page at LOCK_OFFSET, and refuses a file that uses this
// page.
#include "converter/tables/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_PAGES   64
#define LOCK_OFFSET    0x40000000
#define LOCK_PAGE      (LOCK_OFFSET / PAGE_BYTES + 1)
#define HEADER_BYTES   100
#define SQLITE_VERSION 3040001 // the version against which this format was checked
#define PAGES_MAX      0xfffffffe
#define SCHEMA_FORMAT  4
#define ENCODING_UTF8  1
// Offsets in the file's header. The page count is valid for the change whose number is at
// N_PAGES_VALID_AT.
#define CHANGES_AT       24
#define N_PAGES_AT       28
#define FREE_AT          32 // page of the first list of free pages
#define N_FREE_AT        36
#define N_PAGES_VALID_AT 92

#define TRUNK_LEAVES_MAX (PAGE_BYTES / 4 - 8) // SQLite leaves the last six entries unused

int pages_init(struct pages *pages, int fd, uint32_t first)
{
    *pages = (struct pages){.fd = fd, .next = first};
    pages->buffer = malloc((size_t)BUFFER_PAGES * PAGE_BYTES);
    return pages->buffer ? 0 : -ENOMEM;
}

static void write_at(struct pages *pages, const uint8_t *bytes, size_t size, uint64_t offset)
{
    while (size && pages->failure == 0) {
        ssize_t n = pwrite(pages->fd, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            pages->failure = n < 0 ? -errno : -EIO;
            return;
        }
        bytes += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
}

static void buffer_write(struct pages *pages)
{
    uint64_t first = pages->next - pages->n_buffered;
    write_at(pages, pages->buffer, pages->n_buffered * PAGE_BYTES, (first - 1) * PAGE_BYTES);
    pages->n_buffered = 0;
}

static void page_append(struct pages *pages, const uint8_t *page)
{
    if (pages->failure == 0)
        pages->failure = budget_take(pages->budget, PAGE_BYTES);
    memcpy(pages->buffer + pages->n_buffered++ * PAGE_BYTES, page, PAGE_BYTES);
    pages->next++;
    if (pages->n_buffered == BUFFER_PAGES)
        buffer_write(pages);
}

uint32_t pages_number(const struct pages *pages, uint32_t n)
{
    uint32_t number = pages->next + n;
    return pages->next <= LOCK_PAGE && number >= LOCK_PAGE ? number + 1 : number;
}

uint32_t pages_add(struct pages *pages, const uint8_t *page)
{
    static const uint8_t unused[PAGE_BYTES];
    if (pages->next == LOCK_PAGE)
        page_append(pages, unused);
    if (pages->next >= PAGES_MAX && pages->failure == 0)
        pages->failure = -EFBIG;
    if (pages->failure < 0)
        return 0;
    uint32_t number = pages->next;
    page_append(pages, page);
    return number;
}

void pages_replace(struct pages *pages, uint32_t number, const uint8_t *page)
{
    write_at(pages, page, PAGE_BYTES, (uint64_t)(number - 1) * PAGE_BYTES);
}

int pages_read(struct pages *pages, uint32_t number, uint8_t *ret)
{
    buffer_write(pages);
    if (pages->failure < 0)
        return pages->failure;
    ssize_t n;
    do
        n = pread(pages->fd, ret, PAGE_BYTES, (off_t)(number - 1) * PAGE_BYTES);
    while (n < 0 && errno == EINTR);
    return n == PAGE_BYTES ? 0 : n < 0 ? -errno : -EIO;
}

int pages_free(struct pages *pages, uint32_t number)
{
    return page_vec_push(&pages->free, number);
}

uint32_t pages_put(struct pages *pages, const uint8_t *page)
{
    if (!pages->free.n)
        return pages_add(pages, page);
    buffer_write(pages); // the page may be in the buffer
    uint32_t number = pages->free.items[--pages->free.n];
    pages_replace(pages, number, page);
    return pages->failure < 0 ? 0 : number;
}

// Makes SQLite's list of free pages, before the list that starts at the page `*first`. Returns the
// number of pages that were added to the list.
static uint32_t free_pages_write(struct pages *pages, uint32_t *first)
{
    uint32_t n = (uint32_t)pages->free.n;
    while (pages->free.n) {
        uint8_t trunk[PAGE_BYTES] = {0};
        uint32_t number = pages->free.items[--pages->free.n], n_leaves = 0;
        while (pages->free.n && n_leaves < TRUNK_LEAVES_MAX)
            put_u32(trunk + 8 + 4 * n_leaves++, pages->free.items[--pages->free.n]);
        put_u32(trunk, *first);
        put_u32(trunk + 4, n_leaves);
        pages_replace(pages, number, trunk);
        *first = number;
    }
    return n;
}

int pages_finish_grown(struct pages *pages)
{
    uint8_t head[HEADER_BYTES];
    buffer_write(pages);
    if (pages->failure == 0 && pread(pages->fd, head, sizeof(head), 0) != sizeof(head))
        pages->failure = -EIO;
    if (pages->failure < 0)
        return pages->failure;
    uint32_t n_changes = get_u32(head + CHANGES_AT) + 1, first_free = get_u32(head + FREE_AT);
    uint32_t n_free = get_u32(head + N_FREE_AT) + free_pages_write(pages, &first_free);
    put_u32(head + FREE_AT, first_free);
    put_u32(head + N_FREE_AT, n_free);
    put_u32(head + CHANGES_AT, n_changes);
    put_u32(head + N_PAGES_AT, pages->next - 1);
    put_u32(head + N_PAGES_VALID_AT, n_changes);
    write_at(pages, head, sizeof(head), 0);
    return pages->failure;
}

int pages_finish(struct pages *pages, uint32_t application_id)
{
    uint8_t page[PAGE_BYTES] = "SQLite format 3";
    buffer_write(pages);
    put_u16(page + 16, PAGE_BYTES);
    page[18] = page[19] = 1; // rollback journal, not WAL
    page[21] = 64;           // payload fractions, fixed by the format
    page[22] = page[23] = 32;
    uint32_t first_free = 0, n_free = free_pages_write(pages, &first_free);
    put_u32(page + FREE_AT, first_free);
    put_u32(page + N_FREE_AT, n_free);
    put_u32(page + CHANGES_AT, 1);
    put_u32(page + N_PAGES_AT, pages->next - 1);
    put_u32(page + 40, 1); // schema cookie
    put_u32(page + 44, SCHEMA_FORMAT);
    put_u32(page + 56, ENCODING_UTF8);
    put_u32(page + 68, application_id);
    put_u32(page + N_PAGES_VALID_AT, 1);
    put_u32(page + 96, SQLITE_VERSION);
    page[HEADER_BYTES] = PAGE_LEAF; // an empty schema
    put_u16(page + HEADER_BYTES + PAGE_CONTENT_AT, PAGE_BYTES);
    write_at(pages, page, PAGE_BYTES, 0);
    return pages->failure;
}

void pages_done(struct pages *pages)
{
    free(pages->buffer);
    page_vec_done(&pages->free);
    *pages = (struct pages){.fd = -1};
}
