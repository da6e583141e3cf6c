// SPDX-License-Identifier: Apache-2.0
//
// Turns the read-ahead of a block device off for a while. Read-ahead is a setting of the whole
// machine: it is restored whatever happens to this process, SIGKILL included.
#pragma once

#include <sys/types.h>

#include "common/err.h"

// A setting to restore, or READ_AHEAD_NONE.
struct read_ahead {
    pid_t watcher; // 0: none
    int life_fd;   // owned; the watcher restores the setting when this descriptor is closed
};

#define READ_AHEAD_NONE ((struct read_ahead){.life_fd = -1})

// Turns read-ahead off for `device` (st_dev). If `device` is a partition, turns read-ahead off for
// its disk. `sys` is "/sys", or a directory of the same structure. Returns 0, also if read-ahead is
// off already; or a negative errno with text: -EBUSY if another pintool has turned read-ahead off;
// -ENODEV if there is no such device, or the device does not have the setting; -EACCES.
int read_ahead_stop(const char *sys, dev_t device, struct read_ahead *ret, struct err *err);

// Restores the setting, unless the setting was changed since. Returns when this is done.
void read_ahead_restore(struct read_ahead *read_ahead); // fit for CLEANUP()
