// SPDX-License-Identifier: Apache-2.0
//
// libzip and libarchive do not give the place of an entry's data. minizip gives the place, but
// version 1.1, which distributions have, misreads the sizes of zip64 entries.
//
// The directory has the place of an entry's local header. Only this header, with its own extra
// field, has the beginning of the data. Directory and headers are read in blocks. The reads
// alternate between the two, so a few blocks are cached. The least recently used block is replaced.
//
// Invariants: offsets are added in 64 bits only after they were compared with the file's size. An
// entry is in the index only if its data lie between its header and the directory and share no byte
// with another entry's data. A bad entry is left out and counted. A contradictory directory makes
// the whole index invalid.
#include "common/zipindex.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

#define BLOCK_BYTES 4096
#define N_BLOCKS    4
#define NO_BLOCK    UINT64_MAX

#define LOCAL_SIGNATURE     0x04034b50
#define LOCAL_BYTES         30
#define ENTRY_SIGNATURE     0x02014b50
#define ENTRY_BYTES         46
#define END_SIGNATURE       0x06054b50
#define END_BYTES           22
#define LOCATOR64_SIGNATURE 0x07064b50
#define LOCATOR64_BYTES     20
#define END64_SIGNATURE     0x06064b50
#define END64_BYTES         56
#define COMMENT_MAX         65535
#define ZIP64_EXTRA         1
#define FLAG_SIZES_BEHIND   8 // the local header does not have the sizes

struct block {
    uint64_t number; // NO_BLOCK: the slot is free
    uint64_t used;   // time of the last use
    uint8_t bytes[BLOCK_BYTES];
};

// The state of one zipindex_read().
struct reader {
    const struct zipindex_source *source;
    const char *zip_name;
    uint64_t clock;
    struct block blocks[N_BLOCKS];
    // The directory: its place in the file, the base of its offsets, and the number of entries that
    // it claims.
    uint64_t directory, directory_end, base, n_claimed;
    bool is_zip64;
    struct zipindex *index;
    struct err *err;
    char name[ZIPINDEX_NAME_MAX + 1], other_name[ZIPINDEX_NAME_MAX + 1];
};

// An entry as the directory describes it.
struct record {
    unsigned method;
    uint32_t crc32;
    uint64_t size, uncompressed, header;
    unsigned name_bytes, extra_bytes, comment_bytes;
};

static unsigned u16(const uint8_t *at)
{
    return at[0] | (unsigned)at[1] << 8;
}

static uint32_t u32(const uint8_t *at)
{
    return u16(at) | (uint32_t)u16(at + 2) << 16;
}

static uint64_t u64(const uint8_t *at)
{
    return u32(at) | (uint64_t)u32(at + 4) << 32;
}

static struct block *oldest_block(struct reader *reader)
{
    struct block *oldest = &reader->blocks[0];
    for (size_t i = 1; i < N_BLOCKS; i++)
        if (reader->blocks[i].used < oldest->used)
            oldest = &reader->blocks[i];
    return oldest;
}

static int block_get(struct reader *reader, uint64_t number, const uint8_t **ret)
{
    struct block *block = NULL;
    for (size_t i = 0; i < N_BLOCKS && !block; i++)
        if (reader->blocks[i].number == number)
            block = &reader->blocks[i];
    if (!block) {
        block = oldest_block(reader);
        uint64_t start = number * BLOCK_BYTES, rest = reader->source->size_bytes - start;
        block->number = NO_BLOCK;
        int r = reader->source->read(reader->source->userdata, start, block->bytes,
                                     rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES);
        if (r < 0)
            return err_errno(reader->err, r, "%s", reader->zip_name);
        block->number = number;
    }
    block->used = ++reader->clock;
    *ret = block->bytes;
    return 0;
}

static bool lies_within(uint64_t offset, uint64_t size, uint64_t end)
{
    return offset <= end && size <= end - offset;
}

// Reads `size` bytes at `offset`. The caller has checked that the file has these bytes.
static int get(struct reader *reader, uint64_t offset, void *ret, size_t size)
{
    for (size_t done = 0; done < size;) {
        const uint8_t *bytes = NULL;
        int r = block_get(reader, (offset + done) / BLOCK_BYTES, &bytes);
        if (r < 0)
            return r;
        size_t from = (size_t)((offset + done) % BLOCK_BYTES), n = BLOCK_BYTES - from;
        if (n > size - done)
            n = size - done;
        memcpy((uint8_t *)ret + done, bytes + from, n);
        done += n;
    }
    return 0;
}

static int no_zip(struct reader *reader)
{
    return err_set(reader->err, -EBADMSG, "%s: not a zip: it has no directory at its end",
                   reader->zip_name);
}

static int bad_directory(struct reader *reader, uint64_t n)
{
    return err_set(reader->err, -EBADMSG,
                   "%s: the directory of the zip is damaged after entry %" PRIu64, reader->zip_name,
                   n);
}

static int out_of_memory(struct reader *reader)
{
    return err_errno(reader->err, -ENOMEM, "%s", reader->zip_name);
}

// Finds the last end record whose comment fits into the file.
static int end_find(struct reader *reader, uint64_t *ret_at, uint8_t (*ret)[END_BYTES])
{
    uint64_t size = reader->source->size_bytes;
    if (size < END_BYTES)
        return no_zip(reader);
    uint64_t lowest = size > END_BYTES + COMMENT_MAX ? size - END_BYTES - COMMENT_MAX : 0;
    for (uint64_t at = size - END_BYTES + 1; at-- > lowest;) {
        const uint8_t *block = NULL;
        int r = block_get(reader, at / BLOCK_BYTES, &block);
        if (r < 0)
            return r;
        if (block[at % BLOCK_BYTES] != (END_SIGNATURE & 0xff))
            continue;
        r = get(reader, at, *ret, END_BYTES);
        if (r < 0)
            return r;
        if (u32(*ret) == END_SIGNATURE && lies_within(at + END_BYTES, u16(*ret + 20), size)) {
            *ret_at = at;
            return 0;
        }
    }
    return no_zip(reader);
}

// Finds the zip64 end record before the end record at `end`; reader->is_zip64 says whether it
// exists. If the zip follows a prefix, the offset in the locator is too low by the size of the
// prefix.
static int end64_find(struct reader *reader, uint64_t end, uint64_t *ret_at,
                      uint8_t (*ret)[END64_BYTES])
{
    uint8_t locator[LOCATOR64_BYTES];
    reader->is_zip64 = false;
    if (end < LOCATOR64_BYTES + END64_BYTES)
        return 0;
    uint64_t limit = end - LOCATOR64_BYTES;
    int r = get(reader, limit, locator, sizeof(locator));
    if (r < 0 || u32(locator) != LOCATOR64_SIGNATURE)
        return r;
    uint64_t places[] = {u64(locator + 8), limit - END64_BYTES};
    for (size_t i = 0; i < 2; i++) {
        if (!lies_within(places[i], END64_BYTES, limit))
            continue;
        r = get(reader, places[i], *ret, END64_BYTES);
        if (r < 0)
            return r;
        if (u32(*ret) != END64_SIGNATURE)
            continue;
        reader->is_zip64 = true;
        *ret_at = places[i];
        return 0;
    }
    return 0;
}

static int directory_find(struct reader *reader)
{
    uint8_t end[END_BYTES], end64[END64_BYTES];
    uint64_t at = 0;
    int r = end_find(reader, &at, &end);
    if (r == 0)
        r = end64_find(reader, at, &at, &end64);
    if (r < 0)
        return r;
    uint64_t size = reader->is_zip64 ? u64(end64 + 40) : u32(end + 12);
    uint64_t offset = reader->is_zip64 ? u64(end64 + 48) : u32(end + 16);
    reader->n_claimed = reader->is_zip64 ? u64(end64 + 32) : u16(end + 10);
    if (size > at || offset > at - size)
        return err_set(reader->err, -EBADMSG,
                       "%s: the directory of the zip is not where the end of the zip says",
                       reader->zip_name);
    reader->directory_end = at;
    reader->directory = at - size;
    reader->base = reader->directory - offset;
    return 0;
}

static void note_damage(struct reader *reader, const char *name, const char *what)
{
    char quoted[96];
    if (reader->index->n_damaged++)
        return;
    str_printable(quoted, sizeof(quoted), name, strlen(name));
    snprintf(reader->index->first_damaged, sizeof(reader->index->first_damaged), "\"%s\" %s",
             quoted, what);
}

static int entry_add(struct reader *reader, const struct record *record, uint64_t offset)
{
    struct zipindex *index = reader->index;
    struct zipindex_entry entry = {
        .name = arena_strndup(&index->names, reader->name, record->name_bytes),
        .offset = offset,
        .size_bytes = record->size,
        .uncompressed_bytes = record->uncompressed,
        .crc32 = record->crc32,
        .method = record->method,
    };
    if (!entry.name || zipindex_entries_push(&index->entries, entry) < 0)
        return out_of_memory(reader);
    if (index->entries.n > ZIPINDEX_ENTRIES_MAX || index->names.n_bytes > ZIPINDEX_NAMES_MAX)
        return err_set(reader->err, -EFBIG,
                       "%s: more entries, or longer names, than this program can read",
                       reader->zip_name);
    return 0;
}

// Reads the numbers that do not fit into 32 bits from the zip64 field of the extra bytes at `at`,
// which lie in the directory. If the field is too short, the numbers stay out of bounds.
static int zip64_read(struct reader *reader, uint64_t at, struct record *record)
{
    uint64_t *wanted[] = {&record->uncompressed, &record->size, &record->header};
    uint64_t end = at + record->extra_bytes;
    while (lies_within(at, 4, end)) {
        uint8_t head[4], value[8];
        int r = get(reader, at, head, sizeof(head));
        if (r < 0)
            return r;
        at += 4;
        uint64_t field_end = at + u16(head + 2);
        if (field_end > end)
            return 0;
        for (size_t i = 0; i < 3 && u16(head) == ZIP64_EXTRA; i++) {
            if (*wanted[i] != UINT32_MAX)
                continue;
            if (!lies_within(at, 8, field_end))
                return 0;
            r = get(reader, at, value, sizeof(value));
            if (r < 0)
                return r;
            *wanted[i] = u64(value);
            at += 8;
        }
        at = field_end;
    }
    return 0;
}

// Returns 1 if the local header belongs to the entry, with *ret at the beginning of its data; 0 if
// not; or a negative errno.
static int header_read(struct reader *reader, const struct record *record, uint64_t *ret)
{
    uint8_t head[LOCAL_BYTES];
    uint64_t limit = reader->directory;
    if (!lies_within(reader->base, record->header, limit))
        return 0;
    uint64_t at = reader->base + record->header;
    if (!lies_within(at, LOCAL_BYTES, limit))
        return 0;
    int r = get(reader, at, head, sizeof(head));
    if (r < 0)
        return r;
    uint32_t size = u32(head + 18);
    bool same_size =
        u16(head + 6) & FLAG_SIZES_BEHIND || size == UINT32_MAX || size == record->size;
    if (u32(head) != LOCAL_SIGNATURE || u16(head + 8) != record->method || !same_size ||
        u16(head + 26) != record->name_bytes ||
        !lies_within(at + LOCAL_BYTES, (uint64_t)record->name_bytes + u16(head + 28), limit))
        return 0;
    r = get(reader, at + LOCAL_BYTES, reader->other_name, record->name_bytes);
    if (r < 0 || memcmp(reader->other_name, reader->name, record->name_bytes) != 0)
        return r;
    *ret = at + LOCAL_BYTES + record->name_bytes + u16(head + 28);
    return 1;
}

static bool name_is_valid(struct reader *reader, const struct record *record)
{
    return record->name_bytes && record->name_bytes <= ZIPINDEX_NAME_MAX &&
           !memchr(reader->name, '\0', record->name_bytes);
}

// Adds the entry of the directory record at `at`.
static int entry_read(struct reader *reader, uint64_t at, struct record *record)
{
    uint64_t data = 0;
    size_t shown = record->name_bytes < ZIPINDEX_NAME_MAX ? record->name_bytes : ZIPINDEX_NAME_MAX;
    int r = get(reader, at + ENTRY_BYTES, reader->name, shown);
    reader->name[shown] = '\0';
    if (r == 0)
        r = zip64_read(reader, at + ENTRY_BYTES + record->name_bytes, record);
    if (r < 0)
        return r;
    if (!name_is_valid(reader, record)) {
        note_damage(reader, reader->name, "is a name that no entry can have");
        return 0;
    }
    r = header_read(reader, record, &data);
    if (r < 0)
        return r;
    if (r == 0)
        note_damage(reader, reader->name, "is not where the directory says");
    else if (!lies_within(data, record->size, reader->directory))
        note_damage(reader, reader->name, "reaches beyond the data of the zip");
    else
        return entry_add(reader, record, data);
    return 0;
}

static int entries_read(struct reader *reader)
{
    uint64_t at = reader->directory, n = 0;
    while (at < reader->directory_end) {
        uint8_t head[ENTRY_BYTES];
        if (!lies_within(at, ENTRY_BYTES, reader->directory_end))
            return bad_directory(reader, n);
        int r = get(reader, at, head, sizeof(head));
        if (r < 0)
            return r;
        struct record record = {
            .method = u16(head + 10),
            .crc32 = u32(head + 16),
            .size = u32(head + 20),
            .uncompressed = u32(head + 24),
            .name_bytes = u16(head + 28),
            .extra_bytes = u16(head + 30),
            .comment_bytes = u16(head + 32),
            .header = u32(head + 42),
        };
        uint64_t size =
            ENTRY_BYTES + (uint64_t)record.name_bytes + record.extra_bytes + record.comment_bytes;
        if (u32(head) != ENTRY_SIGNATURE || !lies_within(at, size, reader->directory_end))
            return bad_directory(reader, n);
        r = entry_read(reader, at, &record);
        if (r < 0)
            return r;
        at += size;
        n++;
    }
    // The old end record counts entries modulo 65,536.
    if (reader->n_claimed != (reader->is_zip64 ? n : n % 65536))
        return bad_directory(reader, n);
    return 0;
}

static int compare_offset(const void *a, const void *b)
{
    const struct zipindex_entry *x = *(struct zipindex_entry *const *)a;
    const struct zipindex_entry *y = *(struct zipindex_entry *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y; // in the order of the directory
}

// Drops each entry that overlaps an earlier entry.
static int entries_part(struct reader *reader)
{
    struct zipindex_entries *entries = &reader->index->entries;
    CLEANUP(freep) void *memory = malloc((entries->n + 1) * sizeof(struct zipindex_entry *));
    struct zipindex_entry **sorted = memory;
    if (!sorted)
        return out_of_memory(reader);
    for (size_t i = 0; i < entries->n; i++)
        sorted[i] = &entries->items[i];
    qsort(sorted, entries->n, sizeof(sorted[0]), compare_offset);
    uint64_t end = 0;
    for (size_t i = 0; i < entries->n; i++) {
        struct zipindex_entry *entry = sorted[i];
        if (!entry->size_bytes)
            continue;
        if (entry->offset >= end) {
            end = entry->offset + entry->size_bytes;
            continue;
        }
        note_damage(reader, entry->name, "overlaps another entry");
        entry->name = NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < entries->n; i++)
        if (entries->items[i].name)
            entries->items[kept++] = entries->items[i];
    entries->n = kept;
    return 0;
}

int zipindex_read(const struct zipindex_source *source, const char *name, struct zipindex *ret,
                  struct err *err)
{
    CLEANUP(freep) void *memory = calloc(1, sizeof(struct reader));
    CLEANUP(zipindex_done) struct zipindex index = {0};
    struct reader *reader = memory;
    if (!reader)
        return err_errno(err, -ENOMEM, "%s", name);
    *reader = (struct reader){.source = source, .zip_name = name, .index = &index, .err = err};
    for (size_t i = 0; i < N_BLOCKS; i++)
        reader->blocks[i].number = NO_BLOCK;
    int r = directory_find(reader);
    if (r == 0)
        r = entries_read(reader);
    if (r == 0)
        r = entries_part(reader);
    if (r < 0)
        return r;
    *ret = index;
    index = (struct zipindex){0};
    return 0;
}

void zipindex_done(struct zipindex *index)
{
    zipindex_entries_done(&index->entries);
    arena_done(&index->names);
    *index = (struct zipindex){0};
}
