// SPDX-License-Identifier: Apache-2.0
//
// The modes. The table of all of them is modes[] in pintool.c.
#pragma once

#define PINTOOL "pintool"

// Exit codes: the work is done; it failed; the command line is wrong.
enum pintool_exit {
    PINTOOL_DONE = 0,
    PINTOOL_FAILED = 1,
    PINTOOL_USAGE = 2,
};

int pintool_file(int argc, char **argv);
int pintool_pinlist(int argc, char **argv);
int pintool_measure(int argc, char **argv);
int pintool_suggest(int argc, char **argv);
int pintool_lock(int argc, char **argv);
int pintool_preload(int argc, char **argv);

// What a mode returns at its end: PINTOOL_DONE, or PINTOOL_FAILED with a message if standard output
// did not take everything.
int pintool_close_stdout(void);
