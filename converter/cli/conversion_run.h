// SPDX-License-Identifier: Apache-2.0
//
// A conversion that is going on: what its steps share.
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

// Something to import: a file, or what is in an archive.
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
    uint64_t n_counted; // bytes of the working file that the budget knows
    char *folder;       // owned
    struct working_folder beside;
    char *working; // owned; the file that becomes the output
    bool has_maps; // a trace had perf maps
    bool has_base; // there is a database in it
    struct content_vec waiting;
    struct sources sources;
    size_t n_skipped; // files that repeat others
    bool unchanged;   // nothing came to the database that is there
    struct conversion_result result;
    uint64_t n_packets, n_bytes, n_rows;
    int64_t n_traces; // in the database
    int64_t n_judged; // of those, the first, which have their verdict already
    struct verdict_vec verdicts;
    struct health_line_vec health;
    struct err *err;
    bool progress_shown;
    nsec_t progress_next;
};

DEFINE_CLEANUP(input_freep, struct input, input_free);

// A part is missing in the result because a limit was reached.
void run_is_cut(struct run *run);

// False: the user wants an end.
bool run_goes_on(void *userdata);

// As run_goes_on(), and shows how much is done.
bool run_progress_show(void *userdata, double done);
void run_progress_wipe(struct run *run);

// For reading and writing a working file. 0 or a negative errno with text.
int run_handle_open(struct run *run, const char *path, struct sqlite3 **ret);
void run_handle_closep(struct sqlite3 **handle);

// Tells the budget how large the working file is now: SQLite does not ask.
void run_count(struct run *run);

// How a file is known when it comes again. Borrows everything.
struct source source_of(const char *name, const struct input *input,
                        const struct file_format *format, const char *argument);

// Leaves out a file that repeats another one, and says so.
void run_skip(struct run *run, const char *name, const char *why);

// Whether the same is loaded; says so.
bool run_skips(struct run *run, const struct source *source, const struct file_format *format);

// Notes that it is loaded from here on. 0 or a negative errno with text.
int run_taken(struct run *run, const struct source *source);

// -EINVAL with text.
int content_is_empty(struct run *run, const struct content *content);

void content_done(struct content *content);

// No room is left for a further file, as run->err says; what is there already is kept. Returns 0.
int run_leave_out(struct run *run);
