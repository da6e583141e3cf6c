// SPDX-License-Identifier: Apache-2.0
//
// The build of a zip that a pinlist was made of. A pinlist has no room for this, so pintool writes
// a small text file beside the list:
//
//     pinlist-source 1
//     list crc32=8e1d7f4a
//     zip size=81234 name=app.apk
//     entry offset=8192 size=30000 crc32=1234abcd name=lib/arm64-v8a/libapp.so
//
// The checksum in the second line belongs to the list: beside another list the file is ignored.
// Each entry with bytes in the list has a line. A name is the rest of its line. Lines that begin
// with another word are skipped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/pinlist.h"
#include "common/str.h"
#include "common/zipindex.h"

#define LIST_SOURCE_SUFFIX      ".source"
#define LIST_SOURCE_ENTRIES_MAX ((size_t)16384) // others are not remembered

// All zero: the build is unknown.
struct list_source {
    bool known;
    uint64_t zip_bytes;
    const char *zip_name; // in the arena; without folders
    struct zipindex_entries entries;
    struct arena names; // owned
};

// The differences between a zip and the build that a list was made of.
struct list_source_change {
    size_t n_entries, n_changed;
    char first[512]; // a sentence about the first of the changed entries
};

// Makes the source of a list from the zip `zip_name`. Returns 0 or -ENOMEM.
int list_source_make(const struct pinlist *list, const struct zipindex *index, const char *zip_name,
                     uint64_t zip_bytes, struct list_source *ret);

// Appends the text of the source file. `list` has the bytes of the pinlist's file.
void list_source_encode(const struct list_source *source, const struct strbuf *list,
                        struct strbuf *ret);

// Parses the text of a source file. *ret is unknown if the text belongs to another list, or is not
// a source file. Returns 0 or -ENOMEM.
int list_source_parse(const char *text, size_t size, const struct strbuf *list,
                      struct list_source *ret);

// Compares the entries with the entries of a zip. Returns 0 or -ENOMEM.
int list_source_compare(const struct list_source *source, const struct zipindex *index,
                        struct list_source_change *ret);

// Returns 1 with text if the list at `list_path` was made of another build of the zip at `path`; 0
// if no difference was found; or -ENOMEM. `beyond_bytes` of the list lie beyond the end of the zip.
int list_source_check(const struct list_source *source, const struct zipindex *index,
                      const char *list_path, const char *path, uint64_t beyond_bytes,
                      struct err *err);

void list_source_done(struct list_source *source); // fit for CLEANUP()
