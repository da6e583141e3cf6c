// SPDX-License-Identifier: Apache-2.0
//
// Mounts of the test's own.
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>

// Gives this process a mount namespace whose mounts no other namespace sees. Returns false without
// the right to do so: only root makes mount namespaces.
static inline bool own_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "", MS_REC | MS_PRIVATE, "") == 0;
}
