// SPDX-License-Identifier: Apache-2.0
//
// The read-ahead of a block device, off for a while. It is a setting of the whole machine, so it
// comes back whatever happens to this process, SIGKILL included.
#pragma once

#include <sys/types.h>

#include "common/err.h"

// All zero and -1: nothing to restore.
struct read_ahead {
    pid_t watcher; // 0: none
    int life_fd;   // owned; the watcher restores when it is closed
};

#define READ_AHEAD_NONE ((struct read_ahead){.life_fd = -1})

// Turns it off for the device that `device` (st_dev) is or lies on. `sys` is "/sys" or a directory
// that looks like it. 0, also if it is off already; -EBUSY: another pintool has turned it off;
// -ENODEV: no such device, or one without the setting; -EACCES; with text.
int read_ahead_stop(const char *sys, dev_t device, struct read_ahead *ret, struct err *err);

// Puts it back as it was, unless somebody else has changed it since, and waits until that is done.
void read_ahead_restore(struct read_ahead *read_ahead); // fit for CLEANUP()
