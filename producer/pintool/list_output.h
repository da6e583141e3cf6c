// SPDX-License-Identifier: Apache-2.0
//
// Writes the pinlist of a run, and protects the files that it would replace.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/pinlist.h"
#include "common/zipindex.h"

struct list_output {
    const char *path; // borrowed; NULL: no list is written
    bool allow_empty;
    int stream_fd; // owned; standard output if a file goes there; otherwise -1
};

// The origin of a list. All members are borrowed.
struct list_made_of {
    const char *path;           // of the file
    const struct zipindex *zip; // its entries; NULL: not known
    uint64_t size_bytes;        // of the file
    const char *why_empty;      // the reason if the list is empty
};

// Reserves standard output if the path is "-", or if `text` is true: then a text will go there.
// After a reservation, everything that is printed goes to standard error. Returns 0 or a negative
// errno with text: -ENOTTY if the list, which is binary, would go to a terminal.
int list_output_open(struct list_output *output, bool text, struct err *err);
void list_output_done(struct list_output *output); // fit for CLEANUP()

// Writes the list, and for a zip the source file beside the list. If this fails, the old list stays
// as it was. Prints to standard error how the list differs from the old one. Returns 0 or a
// negative errno with text: -ENODATA if an empty list would replace another file, or go to a
// stream.
int list_output_write(const struct list_output *output, const struct pinlist *list,
                      const struct list_made_of *made_of, struct err *err);

// Writes a text to a file, or to standard output for "-". The file `made_of` is never overwritten.
int list_output_write_text(const struct list_output *output, const char *path,
                           const struct strbuf *text, const char *made_of, struct err *err);
