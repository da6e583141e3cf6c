// SPDX-License-Identifier: Apache-2.0
//
// The live view in a terminal: a library that `mmtrace top` loads. Therefore a daemon does not map
// ncurses.
#pragma once

#include "producer/cli/top.h"

#define TOP_SCREEN_FUNCTION "top_screen_run"

// The terminal cannot move its cursor.
#define TOP_SCREEN_E_DUMB 1

struct top_screen {
    struct top_sampler *sampler;
    struct top_view *view;
    nsec_t period;
    uint32_t frames; // 0: no limit
    // Functions of the program.
    void (*sample)(struct top_sampler *sampler);
    size_t (*lines)(struct top_sampler *sampler, const struct top_view *view, size_t rows,
                    size_t columns, struct top_line *ret);
    bool (*is_ending)(void); // after SIGINT, SIGTERM or SIGHUP
};

// Shows samples until the user ends the program, a signal comes, or all frames are shown. Returns 0
// or TOP_SCREEN_E_DUMB.
typedef int (*top_screen_run_fn)(struct top_screen *screen);
int top_screen_run(struct top_screen *screen);
