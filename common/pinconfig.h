// SPDX-License-Identifier: Apache-2.0
//
// pinconfig.txt: the parts of an archive that are worth pinning.
//
//     file lib/arm64-v8a/libapp.so     # any entry whose name contains this
//     offset 4096 len 65536            # relative to the entry; any number of such pairs
//     file "assets/a b.dat"            # without a range: the whole entry
//
// Blanks or newlines separate the words. A name that is empty or has blanks must be in double
// quotes. `length` is another word for `len`. Numbers are decimal or 0x hexadecimal. A word that
// begins with `#` begins a comment.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/str.h"
#include "common/vec.h"

struct pinconfig_range {
    uint64_t offset; // bytes from the start of the entry
    uint64_t length; // bytes
    unsigned line;   // from 1
};

VEC_DEFINE(pinconfig_ranges, struct pinconfig_range);

struct pinconfig_file {
    char *pattern;   // owned
    size_t n_ranges; // 0: the whole entry
    size_t first_range;
    unsigned line; // from 1
};

VEC_DEFINE(pinconfig_files, struct pinconfig_file);

// All zero is an empty config.
struct pinconfig {
    struct pinconfig_files files;   // in the order of the config
    struct pinconfig_ranges ranges; // of all files; the ranges of a file are adjacent
};

// Parses the whole `text`, which need not be terminated. A config without a file is an error.
// Returns 0; -ENOMEM; or -EBADMSG with a text that names `name`, line and column, and shows the
// line with a caret. On failure *ret stays untouched.
int pinconfig_parse(const char *text, size_t size, const char *name, struct pinconfig *ret,
                    struct err *err);
void pinconfig_done(struct pinconfig *config); // fit for CLEANUP()

// Returns the first file whose pattern is part of the name `entry`, or NULL.
const struct pinconfig_file *pinconfig_match(const struct pinconfig *config, const char *entry);

// Sets *ret to the bytes that `file` selects from an entry: clipped to the entry, sorted and
// merged. The entry has `size` bytes and begins at byte `base` of its archive. base + size must fit
// into 64 bits. *ret is cleared first. Returns 0 or -ENOMEM.
int pinconfig_select(const struct pinconfig *config, const struct pinconfig_file *file,
                     uint64_t base, uint64_t size, struct page_ranges *ret);

// Appends `file NAME` for exactly this name. Only a name that needs quotes gets them, because older
// readers do not know quotes. Returns false, with nothing appended, if no pinconfig can express the
// name.
bool pinconfig_add_file(struct strbuf *out, const char *name);
void pinconfig_add_range(struct strbuf *out, uint64_t offset, uint64_t length);
