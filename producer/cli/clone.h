// SPDX-License-Identifier: Apache-2.0
//
// Copies the buffers of a running session into a file. The session continues.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "producer/cli/remote.h"

struct clone_options {
    struct remote_clone session; // output_fd is ignored
    const char *out_path;        // "-": stdout
    bool no_clobber;
    bool quiet; // print nothing about the file
};

// Returns 0, or a negative errno with text. On failure, no empty file remains.
int clone_to_file(const struct clone_options *options, struct err *err);
