// SPDX-License-Identifier: Apache-2.0
//
// Reports print subjects, one after the other. A report is one const table and one state. One run
// can make several reports. All but the SVG are written to standard output.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/pinlist.h"
#include "common/str.h"
#include "producer/pintool/json.h"
#include "producer/pintool/pin_subject.h"

// Options that all reports share.
struct report_options {
    bool verbose;
    bool dump;      // also the ranges of files that were found in a folder, not named
    bool zip;       // each entry of a zip
    bool gen_probe; // the page cache is probed
    const char *use_probe, *pinconfig_path, *svg_path; // borrowed; may be NULL
    int stream_fd;                                     // borrowed; the stream for "-"
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
    // Called after a pinlist was made of the subject. May be NULL.
    void (*pinlist)(struct report *report, const char *path, const struct pinlist *list);
    int (*end)(struct report *report, struct err *err); // may be NULL
};

extern const struct report_kind report_text; // the lines that scripts for Android's tool read
extern const struct report_kind report_json; // one object
extern const struct report_kind report_map;  // a line of densities for each file or entry
extern const struct report_kind report_svg;  // the map as a picture, in options->svg_path

// report_rows() calls `row` for the file, unless nothing was probed, and for each entry of a zip.
// With a pinconfig, the rows have only the entries that the pinconfig selects.
struct report_row {
    struct part part;
    const struct page_range *ranges; // borrowed; the covered bytes
    size_t n_ranges;
    uint64_t covered_bytes;
    bool is_entry;
};
void report_rows(struct report *report, const struct subject *subject,
                 void (*row)(struct report *report, const struct subject *subject,
                             const struct report_row *row));

#define REPORT_NAME_MAX 65536 // a name in a zip is not longer

// Makes the name printable, with `?` for control characters. Returns `ret`.
const char *report_name(char ret[static REPORT_NAME_MAX], const char *name);
