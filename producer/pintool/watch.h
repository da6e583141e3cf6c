// SPDX-License-Identifier: Apache-2.0
//
// Looks at files again and again, and prints what came and went.
#pragma once

#include "common/err.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/targets.h"
#include "producer/sources/residency/probe.h"

// Until SIGINT or SIGTERM, or for options->watch_times looks. 0 or a negative errno with text.
// Files that go away are said to be gone, and looked at again when they are back.
int watch_run(const struct targets *targets, const struct file_options *options,
              struct residency_probe *probe, struct err *err);
