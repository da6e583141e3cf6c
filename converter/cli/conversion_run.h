// SPDX-License-Identifier: Apache-2.0
//
// The state that the steps of a running conversion share.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/nsec.h"
#include "common/vec.h"
#include "converter/cli/conversion_order.h"
#include "converter/cli/sources.h"
#include "converter/cli/verdict_print.h"
#include "converter/cli/working_file.h"
#include "converter/ground/budget.h"
#include "converter/input/input.h"

struct sqlite3;

// A file to import, or an entry of an archive
struct content {
    char *name;          // owned, for people
    struct input *input; // owned
    const struct file_format *format;
    const char *argument;
};
VEC_DEFINE(content_vec, struct content);

struct run {
    const struct conversion *conversion;
    struct budget budget;
    uint64_t n_counted; // bytes of the working file that the budget counts
    char *folder;       // owned
    struct working_folder beside;
    char *working; // owned; the file that becomes the output
    bool has_maps; // a trace had perf maps
    bool has_base; // the working file has a database
    struct content_vec waiting;
    struct sources sources;
    size_t n_skipped; // files that repeat others
    bool unchanged;   // no file added to the old database
    struct conversion_result result;
    uint64_t n_packets, n_bytes, n_rows;
    int64_t n_traces; // in the database
    int64_t n_judged; // the first traces, which have verdicts already
    struct verdict_vec verdicts;
    struct health_line_vec health;
    struct err *err;
    bool progress_shown;
    nsec_t progress_next;
};

DEFINE_CLEANUP(input_freep, struct input, input_free);

// Records in the result that a part is missing because a limit was reached.
void run_is_cut(struct run *run);

// Returns false if the user interrupted the conversion.
bool run_goes_on(void *userdata);

// Shows the progress (`done`: 0 to 1), and returns as run_goes_on().
bool run_progress_show(void *userdata, double done);
void run_progress_wipe(struct run *run);

// Opens a working file for reading and writing. Returns 0 or a negative errno with text.
int run_handle_open(struct run *run, const char *path, struct sqlite3 **ret);
void run_handle_closep(struct sqlite3 **handle);

// Updates the budget with the size of the working file, because SQLite does not know the budget.
void run_count(struct run *run);

// Returns the key that recognises a repeated file. All pointers are borrowed.
struct source source_of(const char *name, const struct input *input,
                        const struct file_format *format, const char *argument);

// Prints that a repeated file is left out, and counts the file.
void run_skip(struct run *run, const char *name, const char *why);

// Returns true, after a message, if the same content is loaded already.
bool run_skips(struct run *run, const struct source *source, const struct file_format *format);

// Records a source as loaded. Returns 0 or a negative errno with text.
int run_taken(struct run *run, const struct source *source);

// Sets the error text of an empty file. Returns -ENODATA, or -EINVAL if the file is damaged.
int content_is_empty(struct run *run, const struct content *content);

void content_done(struct content *content);

// Leaves out a file that the budget has no room for: prints and clears run->err, and keeps the data
// of the other files. Returns 0.
int run_leave_out(struct run *run);
