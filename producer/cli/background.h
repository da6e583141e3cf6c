// SPDX-License-Identifier: Apache-2.0
//
// Continues in a new process while the command returns, as `perfetto --background` does.
#pragma once

#include <stdbool.h>

#include "common/err.h"

enum background_report {
    BACKGROUND_OK,
    BACKGROUND_FAILED,
};

struct background {
    int fd;      // owned: the pipe to the waiting process, or a --notify-fd; -1: no reader
    bool forked; // this is the new process, with the standard error of the old process
};

// Forks. In the new process: returns 0, with standard output and input closed; standard error stays
// open until background_report(), so that early failures are still printed. In the old process:
// prints the pid, waits for the report (at most 30 seconds), and returns the exit code + 1. Returns
// a negative errno with text if no process can be started.
int background_enter(struct background *background, struct err *err);

// Sends the report to the waiting process. Also closes standard error if background_enter() made
// this process. A second call does nothing.
void background_report(struct background *background, enum background_report what);
