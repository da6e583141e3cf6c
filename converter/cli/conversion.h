// SPDX-License-Identifier: Apache-2.0
//
// From files to a database: what `mmsql convert` does, and `mmsql query` on a trace. Reports what
// is wrong in files to stderr as it goes; a failure's text is left to the caller.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/cli/limit_options.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/selection.h"

struct conversion_file {
    const char *path;                 // borrowed; "-": standard input
    const struct file_format *format; // NULL: recognised by its content
    const char *argument;             // borrowed; see struct file_import
};
VEC_DEFINE(conversion_files, struct conversion_file);
VEC_DEFINE(path_vec, const char *);

struct conversion {
    struct conversion_files files;
    const char *output;      // borrowed
    const char *shown;       // borrowed; `output` as the summary names it; NULL: as it is
    struct sqlite3 **opened; // not NULL: instead of taking that name, the database is opened for
                             // reading, and its file is gone
    struct path_vec symbols; // folders with ELF files, borrowed
    struct selection selection;
    struct limits limits;
    bool symbolize;    // look for symbols of frames
    bool append;       // to `output`, if it exists
    bool merge_clocks; // bring all traces onto the clock of the first
    bool quiet;        // no progress and no summary
    bool (*goes_on)(void *userdata);
    void *userdata;
};

struct conversion_result {
    bool is_partial; // something in the files could not be read
    bool is_cut;     // because a limit was reached
};

// 0: done. Otherwise a negative errno, and `output` is as it was.
int conversion_run(const struct conversion *conversion, struct conversion_result *ret,
                   struct err *err);
