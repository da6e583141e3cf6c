// SPDX-License-Identifier: Apache-2.0
//
// The report: one HTML page that shows the events of a trace and their causes. The page needs no
// network and no other file.
//
// The page is a frame with slots (page/), which embed.py fills with style and scripts at build
// time. The code of this folder fills the other slots: the verdict as HTML, which can be read
// without a script, and the data as JSON. The SQL of the data is in sql/. The SQL reduces the data,
// so that the size of the page does not depend on the size of the trace. All texts come from
// untrusted traces. They are escaped, and the page's policy allows only the scripts of this folder.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct sqlite3;

#define REPORT_TRACES_MAX 8 // of a database; the last traces count

// A database to report on
struct report_input {
    const char *name;       // borrowed; for people
    struct sqlite3 *handle; // borrowed
};

// Writes the page. `compares`: the page shows the first trace of both inputs side by side. Returns
// 0, -ENOENT if an input has neither a trace nor a log of Java allocations, or another negative
// errno, with text. The caller checks `out` for failures.
int report_write(const struct report_input *inputs, size_t n, bool compares, FILE *out,
                 struct err *err);
