// SPDX-License-Identifier: Apache-2.0
//
// Copies what a running session has in its buffers into a file, while the session goes on.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "producer/cli/remote.h"

struct clone_options {
    struct remote_clone session; // its output_fd is not used
    const char *out_path;        // "-": stdout
    bool no_clobber;
    bool quiet; // do not say what was written
};

// -errno with text. No empty file stays behind.
int clone_to_file(const struct clone_options *options, struct err *err);
