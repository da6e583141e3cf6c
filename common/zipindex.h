// SPDX-License-Identifier: Apache-2.0
//
// Where the entries of a zip (an APK) lie in it: names and the ranges of their data, without their
// headers, in the order of the directory. Nothing is inflated, so any method of compression will
// do. Prefixes and zip64 are understood.
//
// A zip is taken as hostile: what an index holds lies within the file, in front of the directory,
// and no two entries share a byte, so that work on all entries is bounded by the size of the file.
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
    const char *name;            // in the index
    uint64_t offset;             // first byte of its data, in the file
    uint64_t size_bytes;         // of its data, as it lies in the file
    uint64_t uncompressed_bytes; // as the directory has it
    uint32_t crc32;              // of the uncompressed data, as the directory has it
    unsigned method;             // 0: stored, 8: deflated
};

VEC_DEFINE(zipindex_entries, struct zipindex_entry);

// All zero is an empty index.
struct zipindex {
    struct zipindex_entries entries;
    size_t n_damaged;        // entries that are left out
    char first_damaged[160]; // what is wrong with the first of them
    struct arena names;      // owned
};

// Where bytes come from: all `size` of them at `offset`, which lie before `size_bytes`. 0 or a
// negative errno.
struct zipindex_source {
    uint64_t size_bytes;
    int (*read)(void *userdata, uint64_t offset, void *ret, size_t size);
    void *userdata; // borrowed
};

// Reads the directory and each entry's header, in pieces of at most 4 KiB. 0; -EBADMSG: no zip, or
// a damaged directory; -EFBIG: beyond the limits above; -ENOMEM; or
// what read() returned. On failure *ret is empty.
int zipindex_read(const struct zipindex_source *source, const char *name, struct zipindex *ret,
                  struct err *err);
void zipindex_done(struct zipindex *index); // fit for CLEANUP()
