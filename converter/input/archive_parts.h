// SPDX-License-Identifier: Apache-2.0
//
// The entries of archives, and the parts that the readers of zip and tar share.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/input/input.h"

#define BUGREPORT_FOLDER       "FS/data/misc/perfetto-traces/"
#define ARCHIVE_HEAD_BYTES     4096
#define ARCHIVE_NAME_BYTES_MAX 4096

struct archive_file {
    char *name;          // owned; name in the archive
    struct input *input; // owned
};
VEC_DEFINE(archive_files, struct archive_file);

#define LEFT_OUT_TEXTS 16

// Entries that could not be read.
struct archive_left_out {
    char *texts[LEFT_OUT_TEXTS]; // owned; of the first entries, "report.zip!entry: why"
    size_t n;                    // number of all entries
    bool damaged;                // an entry is damaged, not only unsupported
    bool is_cut;                 // a limit was reached
};
void archive_files_free(struct archive_files *files);          // fit for CLEANUP()
void archive_left_out_free(struct archive_left_out *left_out); // fit for CLEANUP()

struct archive {
    struct input *input; // borrowed
    const char *path;
    struct input_needs needs; // with an `inflation`
    bool (*wanted)(const char *name, const uint8_t *head, size_t size);
    bool only_bugreport;
    struct archive_left_out *left_out;
    struct archive_files *files;
};

// Adds an entry, whose bytes `read` gives (input_from_reader()). An entry that cannot be read is
// noted as left out. `damage`: a text for input_note_damage(); NULL: none. Returns 0 or a negative
// errno with text.
int archive_take(struct archive *archive, const char *name, const char *damage,
                 ssize_t (*read)(void *source, void *buffer, size_t size, struct err *err),
                 void *source, struct err *err);

// Notes a left-out entry.
void archive_note(struct archive *archive, const char *name, bool damaged, const char *why);
void archive_note_rest(struct archive *archive, size_t n_seen, const char *why);

// Returns true if `name` is the name of a trace in a bugreport.
bool archive_is_bugreport(const char *name);

// Returns true for an entry of a bugreport that is not read: neither a trace nor about memory.
bool archive_leaves_out(const struct archive *archive, const char *name);

// Call before an entry is read. Returns 0; 1 if the budget is used up, and notes the end of
// reading; -EDQUOT with text if nothing is read yet.
int archive_ends(struct archive *archive, const char *name, struct err *err);

// Called if all useful entries were left out. Returns `r`, or -ENOMEM, with text.
int archive_nothing_taken(const struct archive *archive, int r, struct err *err);

// Returns false if the user ended the work.
bool archive_goes_on(const struct archive *archive);
