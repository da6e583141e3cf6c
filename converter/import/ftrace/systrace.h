// SPDX-License-Identifier: Apache-2.0
//
// What Android's atrace and drivers that imitate it say: begins and ends of slices, moments and
// counters, each of a thread or a process.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "converter/import/import.h"

struct marker {
    // B, E: a slice of the thread; I: a moment of it; S, F: a slice of the process, by cookie;
    // N: a moment on a named track of the process; G, H: a slice there, by cookie; C: a counter.
    char phase;
    uint32_t tgid;
    struct slice_name name;
    struct slice_name track; // of N, G, H
    int64_t value;           // of C; otherwise the cookie
};

// Texts that are not the trace's must live as cells do.
void marker_write(struct import *im, int64_t ts, uint32_t tid, const struct marker *marker);
