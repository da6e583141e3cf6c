// SPDX-License-Identifier: Apache-2.0
//
// Looks at files again and again, and prints the pages that came and went.
#pragma once

#include "common/err.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/targets.h"
#include "producer/sources/residency/probe.h"

// Finds the files to watch. Called again from time to time, to find new files. Returns 0 or a
// negative errno with text: -ENOENT or -ESRCH if nothing is left to watch.
struct watch_finder {
    int (*find)(void *userdata, struct targets *ret, struct err *err);
    void *userdata; // borrowed
};

// Watches until SIGINT or SIGTERM, for options->watch_times looks, or until the finder finds
// nothing more. Takes over `targets`, the first files. Reports files that disappear, and looks at
// them again when they are back. Returns 0 or a negative errno with text.
int watch_run(struct targets *targets, const struct watch_finder *finder,
              const struct file_options *options, struct residency_probe *probe, struct err *err);
