// SPDX-License-Identifier: Apache-2.0
//
// The modes. The table of all of them is modes[] in pintool.c.
#pragma once

#include <stdbool.h>

#include "common/program.h" // exit codes

#define PINTOOL "pintool"

int pintool_file(int argc, char **argv);
int pintool_pinlist(int argc, char **argv);
int pintool_measure(int argc, char **argv);
int pintool_suggest(int argc, char **argv);
int pintool_lock(int argc, char **argv);
int pintool_preload(int argc, char **argv);

// Returns the exit code of a mode at its end: PROGRAM_DONE; or PROGRAM_FAILED, with a message, if
// standard output did not take everything, as on a full disk.
int pintool_close_stdout(void);

// Returns whether the path is "-", which stands for a standard stream. False for NULL.
static inline bool path_is_stream(const char *path)
{
    return path && path[0] == '-' && !path[1];
}
