// SPDX-License-Identifier: Apache-2.0
//
// Looks at files again and again, and prints what came and went.
#pragma once

#include "common/err.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/targets.h"
#include "producer/sources/residency/probe.h"

// Finds the files to be watched; called again from time to time, for those that are new. 0 or a
// negative errno with text; -ENOENT or -ESRCH: there is nothing to watch any more.
struct watch_finder {
    int (*find)(void *userdata, struct targets *ret, struct err *err);
    void *userdata; // borrowed
};

// Until SIGINT or SIGTERM, or for options->watch_times looks, or until the finder finds nothing to
// watch. `targets` are the first files, and are taken over. 0 or a negative errno with text. Files
// that go away are said to be gone, and looked at again when they are back.
int watch_run(struct targets *targets, const struct watch_finder *finder,
              const struct file_options *options, struct residency_probe *probe, struct err *err);
