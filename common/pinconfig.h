// SPDX-License-Identifier: Apache-2.0
//
// pinconfig.txt: what of an archive is worth pinning.
//
//     file lib/arm64-v8a/libapp.so     # any entry whose name contains this
//     offset 4096 len 65536            # relative to the entry; any number of such pairs
//     file "assets/a b.dat"            # without a range: the whole entry
//
// Words are separated by blanks or newlines. A name with blanks (or an empty one) stands in double
// quotes; `length` is `len`; numbers are decimal or 0x hexadecimal; `#` in front of a word begins a
// comment.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/str.h"
#include "common/vec.h"

struct pinconfig_range {
    uint64_t offset; // bytes from the begin of the entry
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
    struct pinconfig_files files;   // in the file's order
    struct pinconfig_ranges ranges; // of all files, theirs together
};

// Reads the whole of `text`, which need not be terminated, or nothing: -EBADMSG with an error that
// names `name`, line and column and shows the line with a caret; -ENOMEM. A config without a file
// is an error.
int pinconfig_parse(const char *text, size_t size, const char *name, struct pinconfig *ret,
                    struct err *err);
void pinconfig_done(struct pinconfig *config); // fit for CLEANUP()

// The first file whose pattern `entry` contains, or NULL.
const struct pinconfig_file *pinconfig_match(const struct pinconfig *config, const char *entry);

// What `file` wants of an entry of `size` bytes that begins at byte `base` of its archive: clipped
// to the entry, sorted, merged; *ret is cleared first. base + size must not exceed 64 bits. 0 or
// -ENOMEM.
int pinconfig_select(const struct pinconfig *config, const struct pinconfig_file *file,
                     uint64_t base, uint64_t size, struct page_ranges *ret);

// Appends `file NAME` for exactly this name, in quotes only where it needs them: older readers know
// none. False if no pinconfig can say the name; then nothing is appended.
bool pinconfig_add_file(struct strbuf *out, const char *name);
void pinconfig_add_range(struct strbuf *out, uint64_t offset, uint64_t length);
