// SPDX-License-Identifier: Apache-2.0
//
// An open file together with those of its bytes that a pinlist names.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/ranges.h"

struct listed_file {
    int fd;           // owned
    const char *path; // borrowed
    uint64_t size_bytes;
    uint64_t page_size;
    struct page_ranges pages; // owned; clipped to the file
    uint64_t n_missing_bytes; // named, but behind the file's end
    struct err other_build;   // what tells that the list is of another build; no text: nothing
};

// An APK stands for the pinlist inside it, "-" for standard input; see pinlist_file_read(). 0, or a
// negative errno with text.
int listed_file_open(const char *list_path, const char *path, struct listed_file *ret,
                     struct err *err);
void listed_file_done(struct listed_file *file); // fit for CLEANUP()

uint64_t listed_file_bytes(const struct listed_file *file); // of all its pages
