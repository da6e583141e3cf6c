// SPDX-License-Identifier: Apache-2.0
//
// Where the pinlist of a run goes, and what it may replace there.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/pinlist.h"
#include "common/zipindex.h"

struct list_output {
    const char *path; // borrowed; NULL: no list is written
    bool allow_empty;
    int stream_fd; // owned; standard output, if that is where something goes, or -1
};

// What a list was made of. All borrowed.
struct list_made_of {
    const char *path;           // of the file
    const struct zipindex *zip; // its entries; NULL: they are not known
    uint64_t size_bytes;        // of the file
    const char *why_empty;      // what an empty list comes from
};

// If the path is "-", or a text goes to standard output, that has nothing else from now on: what is
// printed goes to standard error. -ENOTTY: standard output is a terminal, and a list is binary.
int list_output_open(struct list_output *output, bool text, struct err *err);
void list_output_done(struct list_output *output); // fit for CLEANUP()

// Writes the list, and beside it what it was made of if that is a zip. The old list stays as it was
// if this fails. -ENODATA: the list is empty and may not be, since it would replace what is there,
// or goes to a stream. How the list differs from the old one is told on standard error.
int list_output_write(const struct list_output *output, const struct pinlist *list,
                      const struct list_made_of *made_of, struct err *err);

// Writes a text to a file, or to standard output for "-". `made_of` is never overwritten.
int list_output_write_text(const struct list_output *output, const char *path,
                           const struct strbuf *text, const char *made_of, struct err *err);
