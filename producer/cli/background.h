// SPDX-License-Identifier: Apache-2.0
//
// Going on in a process of its own while the command returns, as `perfetto --background` does.
#pragma once

#include <stdbool.h>

#include "common/err.h"

enum background_report {
    BACKGROUND_OK,
    BACKGROUND_FAILED,
};

struct background {
    int fd;      // owned: the pipe to who waits, or a --notify-fd; -1: nobody waits
    bool forked; // this is the new process, and standard error is still the old one's
};

// Forks. In the new process: 0, with standard output and input gone; standard error stays until
// background_report(), so that what fails before is still told. In the old one: prints the pid,
// waits for the report (30 seconds at most), and returns the exit code + 1.
int background_enter(struct background *background, struct err *err);

// Tells who waits; then lets go of standard error where background_enter() made this process. The
// second call does nothing.
void background_report(struct background *background, enum background_report what);
