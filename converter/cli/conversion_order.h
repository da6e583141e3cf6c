// SPDX-License-Identifier: Apache-2.0
//
// The options and the result of a conversion.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/cli/verb_options.h"
#include "converter/cli/working_file.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/selection.h"

#define STDIN_NAME "standard input" // the name of "-" in messages

struct conversion_file {
    const char *path;                 // borrowed; "-": standard input
    const struct file_format *format; // NULL: recognised by its content
    const char *argument;             // borrowed; see struct file_import
};
VEC_DEFINE(conversion_files, struct conversion_file);
VEC_DEFINE(path_vec, const char *);

struct conversion {
    struct conversion_files files;
    const char *output;          // borrowed
    const char *shown;           // borrowed; name of `output` in the summary; NULL: `output`
    struct sqlite3 **opened;     // not NULL: receives the database, opened for reading; the file is
                                 // removed and `output` is not written
    struct working_folder *kept; // not NULL, with `opened`: receives the folder of the database,
                                 // which the caller removes
    struct path_vec symbols;     // folders with ELF files, borrowed
    struct path_vec modules;     // to include, borrowed
    struct sql_packages *packages; // borrowed; NULL if there are no modules
    struct selection selection;
    struct limits limits;
    bool symbolize;    // look for symbols of frames
    bool compat;       // make the tables answer as those of trace_processor
    bool append;       // add to `output`, if it exists
    bool merge_clocks; // bring all traces onto the clock of the first
    bool quiet;        // no progress and no summary
    bool (*goes_on)(void *userdata);
    void *userdata;
};

struct conversion_result {
    bool is_partial; // something in the files could not be read
    bool is_cut;     // a part is missing because a limit was reached
};
