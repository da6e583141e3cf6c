// SPDX-License-Identifier: Apache-2.0
//
// What is printed of subjects, one after the other. A report is one const table and one state;
// several can be made in one run. Reports write to standard output, but the SVG.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/pinlist.h"
#include "common/str.h"
#include "producer/pintool/json.h"
#include "producer/pintool/pin_subject.h"

// What every report may want to know.
struct report_options {
    bool verbose;
    bool dump;      // also the ranges of files that were found, not named
    bool zip;       //
    bool gen_probe; // the cache is looked at
    const char *use_probe, *pinconfig_path, *svg_path; // borrowed; may be NULL
    int stream_fd;                                     // borrowed; where "-" goes
    const struct pinconfig *pinconfig;                 // borrowed; NULL: none
};

struct report {
    const struct report_kind *kind;
    const struct report_options *options; // borrowed
    struct json json;                     // of report_json
    struct strbuf rows;                   // of report_svg
    size_t n_rows, n_rows_left_out;       // of report_svg
};

struct report_kind {
    void (*begin)(struct report *report); // may be NULL
    void (*subject)(struct report *report, const struct subject *subject);
    // A pinlist was made of the subject. May be NULL.
    void (*pinlist)(struct report *report, const char *path, const struct pinlist *list);
    int (*end)(struct report *report, struct err *err); // may be NULL
};

extern const struct report_kind report_text; // the lines that scripts for Android's tool read
extern const struct report_kind report_json; // one object
extern const struct report_kind report_map;  // a line of densities for each file or entry
extern const struct report_kind report_svg;  // the same as a picture, into options->svg_path

#define REPORT_NAME_MAX 65536 // no zip has longer ones

// The name as it is printed: control characters as `?`. Returns `ret`.
const char *report_name(char ret[static REPORT_NAME_MAX], const char *name);
