// SPDX-License-Identifier: Apache-2.0
//
// An index of a zip (an APK): the name of each entry and the range of its data in the file, without
// the entry's header, in the order of the directory. Nothing is inflated, so that entries may use
// any compression method. The reader accepts prefixes and zip64.
//
// A zip is untrusted. All indexed data lie within the file, before the directory. No two
// entries share a byte. Therefore the size of the file bounds any work on all entries.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/vec.h"

#define ZIPINDEX_ENTRIES_MAX ((size_t)4 << 20)
#define ZIPINDEX_NAME_MAX    4095
#define ZIPINDEX_NAMES_MAX   ((size_t)256 << 20) // bytes of all names

struct zipindex_entry {
    const char *name;            // owned by the index
    uint64_t offset;             // first byte of the data, in the file
    uint64_t size_bytes;         // of the data, as stored in the file
    uint64_t uncompressed_bytes; // as the directory says
    uint32_t crc32;              // of the uncompressed data, as the directory says
    unsigned method;             // 0: stored, 8: deflated
};

VEC_DEFINE(zipindex_entries, struct zipindex_entry);

// All zero is an empty index.
struct zipindex {
    struct zipindex_entries entries;
    size_t n_damaged;        // entries that were left out
    char first_damaged[160]; // name of and reason for the first damaged entry
    struct arena names;      // owned
};

// The source of the zip's bytes. read() fills `ret` with the `size` bytes at `offset`; the index
// reads only bytes before `size_bytes`. read() returns 0 or a negative errno.
struct zipindex_source {
    uint64_t size_bytes;
    int (*read)(void *userdata, uint64_t offset, void *ret, size_t size);
    void *userdata; // borrowed
};

// Reads the directory and each entry's header, in pieces of at most 4 KiB. Returns 0; -EBADMSG if
// the file is not a zip or the directory is damaged; -EFBIG beyond the limits above; -ENOMEM; or
// the error of read().
int zipindex_read(const struct zipindex_source *source, const char *name, struct zipindex *ret,
                  struct err *err);
void zipindex_done(struct zipindex *index); // fit for CLEANUP()
