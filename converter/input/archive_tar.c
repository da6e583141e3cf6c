// SPDX-License-Identifier: Apache-2.0
//
// tar: headers of 512 bytes, each followed by the bytes of its file. The forms are ustar, GNU (long
// names, large sizes) and pax (records before an entry). After a damaged header, the entries up to
// the next good header are lost. A truncated archive delivers all its entries, including the
// beginning of the last entry.
#include "converter/input/archive_tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "converter/input/kinds.h"

#define BLOCK     512
#define EXTRA_MAX ((size_t)1 << 20) // bytes of a long name, or of pax records
#define ASK       4096              // headers between two checks for an interrupt

// Fields of a header
enum {
    NAME_AT = 0,
    NAME_BYTES = 100,
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155,
};

struct tar {
    struct archive *archive; // borrowed
    const uint8_t *bytes;
    size_t size, at;
    char name[ARCHIVE_NAME_BYTES_MAX + 1];
    bool has_name, has_size; // given by the entry before
    bool name_is_long;
    uint64_t told_size;
    size_t n_seen;
    bool is_damaged;  // blocks are skipped up to the next good header
    bool was_damaged; // noted
};

// The bytes of an entry
struct member {
    struct archive *archive; // borrowed
    const uint8_t *pos, *end;
};

static ssize_t member_read(void *source, void *buffer, size_t size, struct err *err)
{
    struct member *member = source;
    size_t left = (size_t)(member->end - member->pos), n = size < left ? size : left;
    int r = inflation_take(member->archive->needs.inflation, n, err);
    if (r < 0)
        return r;
    memcpy(buffer, member->pos, n);
    member->pos += n;
    return (ssize_t)n;
}

static bool digits_read(const uint8_t *bytes, size_t n, unsigned base, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)(bytes[i] - '0');
        if (digit >= base || value > (UINT64_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    *ret = value;
    return n > 0;
}

// Reads octal digits between blanks or, if the top bit is set, a big-endian number.
static bool number_read(const uint8_t *field, size_t n, uint64_t *ret)
{
    if (*field & 0x80) {
        uint64_t value = *field & 0x7f;
        for (size_t i = 1; i < n; i++) {
            if (value >> 56)
                return false;
            value = value << 8 | field[i];
        }
        *ret = value;
        return true;
    }
    const uint8_t *end = field + n;
    while (field < end && *field == ' ')
        field++;
    while (field < end && (!end[-1] || end[-1] == ' '))
        end--;
    *ret = 0;
    return field == end || digits_read(field, (size_t)(end - field), 8, ret);
}

static void name_set(struct tar *tar, const void *name, size_t size)
{
    tar->name_is_long = size > ARCHIVE_NAME_BYTES_MAX;
    tar->has_name = true;
    size_t n = tar->name_is_long ? ARCHIVE_NAME_BYTES_MAX : size;
    memcpy(tar->name, name, n);
    tar->name[n] = '\0';
}

// Reads the name from the header itself.
static void name_read(struct tar *tar, const uint8_t *header)
{
    const char *name = (const char *)header + NAME_AT, *prefix = (const char *)header + PREFIX_AT;
    size_t n_prefix = strnlen(prefix, PREFIX_BYTES), n = strnlen(name, NAME_BYTES);
    char whole[PREFIX_BYTES + 1 + NAME_BYTES];
    // A header with GNU's magic, "ustar ", has other fields in place of the prefix.
    if (memcmp(header + MAGIC_AT, "ustar", 6) != 0 || !n_prefix) {
        name_set(tar, name, n);
        return;
    }
    memcpy(whole, prefix, n_prefix);
    whole[n_prefix] = '/';
    memcpy(whole + n_prefix + 1, name, n);
    name_set(tar, whole, n_prefix + 1 + n);
}

// Reads pax records: "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
static void records_read(struct tar *tar, const uint8_t *bytes, size_t size)
{
    static const struct text path = TEXT("path="), told = TEXT("size=");
    while (size) {
        const uint8_t *blank = memchr(bytes, ' ', size);
        uint64_t length;
        if (!blank || !digits_read(bytes, (size_t)(blank - bytes), 10, &length) || length > size ||
            length < (size_t)(blank - bytes) + 2)
            return;
        struct text record = {(const char *)blank + 1, length - (size_t)(blank - bytes) - 2};
        if (text_starts_with(record, path))
            name_set(tar, record.at + path.size, record.size - path.size);
        else if (text_starts_with(record, told))
            tar->has_size = digits_read((const uint8_t *)record.at + told.size,
                                        record.size - told.size, 10, &tar->told_size);
        bytes += length;
        size -= length;
    }
}

static int member_take(struct tar *tar, const uint8_t *bytes, size_t n_there, uint64_t size,
                       struct err *err)
{
    struct archive *archive = tar->archive;
    const char *name = tar->name;
    if (tar->name_is_long) {
        archive_note(archive, "(a member)", true, "its name is too long");
        return 0;
    }
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    if (!n_there || archive_leaves_out(archive, name))
        return 0;
    int r = archive_ends(archive, name, err);
    if (r)
        return r;
    size_t n_head = n_there < ARCHIVE_HEAD_BYTES ? n_there : ARCHIVE_HEAD_BYTES;
    if (!archive->wanted(name, bytes, n_head))
        return 0;
    char damage[96] = "";
    if (n_there < size)
        snprintf(damage, sizeof(damage), "the archive ends after %zu bytes of this file", n_there);
    struct member member = {.archive = archive, .pos = bytes, .end = bytes + n_there};
    return archive_take(archive, name, *damage ? damage : NULL, member_read, &member, err);
}

// Handles the entry of a good header, and moves past the entry.
static int entry_visit(struct tar *tar, const uint8_t *header,
                       int (*take)(struct tar *tar, const uint8_t *bytes, size_t n_there,
                                   uint64_t size, struct err *err),
                       struct err *err)
{
    char type = (char)header[TYPE_AT];
    uint64_t size;
    if (!number_read(header + SIZE_AT, SIZE_BYTES, &size))
        size = 0;
    bool is_extra = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!is_extra && tar->has_size)
        size = tar->told_size;
    const uint8_t *bytes = header + BLOCK;
    size_t left = tar->size - tar->at - BLOCK, n_there = size < left ? (size_t)size : left;
    size_t n_blocks = n_there / BLOCK + (n_there % BLOCK != 0);
    tar->at += BLOCK + (n_blocks * BLOCK < left ? n_blocks * BLOCK : left);
    size_t n_extra = n_there < EXTRA_MAX ? n_there : EXTRA_MAX;
    if (type == 'L' && n_there == size)
        name_set(tar, bytes, strnlen((const char *)bytes, n_extra));
    else if (type == 'x' && n_there == size && size <= EXTRA_MAX)
        records_read(tar, bytes, n_there);
    if (is_extra)
        return 0;
    tar->n_seen++;
    if (!tar->has_name)
        name_read(tar, header);
    int r = 0;
    if (type == '0' || type == '7' || type == '\0')
        r = take(tar, bytes, n_there, size, err);
    else if (type == 'S')
        archive_note(tar->archive, tar->name, false, "sparse files of tar are not supported");
    tar->has_name = tar->has_size = tar->name_is_long = false;
    return r;
}

static bool is_zero(const uint8_t *block)
{
    static const uint8_t zeros[BLOCK];
    return memcmp(block, zeros, BLOCK) == 0;
}

// Calls `take` for each file until `take` returns a value other than 0, and returns this value.
static int entries_walk(struct tar *tar,
                        int (*take)(struct tar *tar, const uint8_t *bytes, size_t n_there,
                                    uint64_t size, struct err *err),
                        struct err *err)
{
    int r = 0;
    size_t n_blocks = 0;
    for (tar->at = 0; r == 0 && tar->at < tar->size && tar->size - tar->at >= BLOCK;) {
        const uint8_t *header = tar->bytes + tar->at;
        if (n_blocks++ % ASK == 0 && !archive_goes_on(tar->archive))
            return -ECANCELED;
        if (kind_is_tar_header(header)) {
            r = entry_visit(tar, header, take, err);
            tar->is_damaged = false;
            continue;
        }
        tar->is_damaged |= !is_zero(header);
        tar->was_damaged |= tar->is_damaged;
        tar->at += BLOCK;
    }
    return r;
}

static int is_bugreport_take(struct tar *tar, const uint8_t *bytes, size_t n_there, uint64_t size,
                             struct err *err)
{
    (void)bytes, (void)size, (void)err;
    return n_there && archive_is_bugreport(tar->name);
}

int archive_read_tar(struct archive *archive, struct err *err)
{
    struct tar *tar = calloc(1, sizeof(*tar));
    if (!tar)
        return err_errno(err, -ENOMEM, "%s", archive->path);
    tar->archive = archive;
    tar->bytes = input_bytes(archive->input);
    tar->size = input_size(archive->input);
    int r = entries_walk(tar, is_bugreport_take, err);
    archive->only_bugreport = r > 0;
    if (r >= 0) {
        tar->n_seen = 0;
        tar->was_damaged = tar->is_damaged = false;
        r = entries_walk(tar, member_take, err);
    }
    if (r == 0 && tar->was_damaged)
        archive_note(archive, "(some members)", true, "headers of the archive are damaged");
    free(tar);
    return r;
}
