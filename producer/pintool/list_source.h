// SPDX-License-Identifier: Apache-2.0
//
// Which build of a zip a pinlist was made of. A pinlist has no room for that, so pintool writes it
// into a small text file beside it:
//
//     pinlist-source 1
//     list crc32=8e1d7f4a
//     zip size=81234 name=app.apk
//     entry offset=8192 size=30000 crc32=1234abcd name=lib/arm64-v8a/libapp.so
//
// The second line ties it to its list: beside another list it says nothing. An entry for each one
// that the list names bytes of; a name is the rest of its line. Lines that begin with another word
// are passed over.
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

// All zero: nothing is known.
struct list_source {
    bool known;
    uint64_t zip_bytes;
    const char *zip_name; // in the arena; without folders
    struct zipindex_entries entries;
    struct arena names; // owned
};

// How a zip differs from what a list was made of.
struct list_source_change {
    size_t n_entries, n_changed;
    char first[512]; // what happened to the first of those, a whole sentence
};

// What is to be remembered of the zip `zip_name` for a list. 0 or -ENOMEM.
int list_source_make(const struct pinlist *list, const struct zipindex *index, const char *zip_name,
                     uint64_t zip_bytes, struct list_source *ret);

// Appends the text of the file; `list` are the bytes of the pinlist as they stand in its file.
void list_source_encode(const struct list_source *source, const struct strbuf *list,
                        struct strbuf *ret);

// *ret is what the text says; not known if it belongs to another list or is none of ours. 0 or
// -ENOMEM.
int list_source_parse(const char *text, size_t size, const struct strbuf *list,
                      struct list_source *ret);

// Compares the entries with those of a zip. 0 or -ENOMEM.
int list_source_compare(const struct list_source *source, const struct zipindex *index,
                        struct list_source_change *ret);

// What tells that the list at `list_path` is of another build of the zip at `path`: 1 with text, 0:
// nothing does; -ENOMEM. `beyond_bytes` of the list lie behind the end of the zip.
int list_source_check(const struct list_source *source, const struct zipindex *index,
                      const char *list_path, const char *path, uint64_t beyond_bytes,
                      struct err *err);

void list_source_done(struct list_source *source); // fit for CLEANUP()
