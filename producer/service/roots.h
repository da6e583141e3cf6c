// SPDX-License-Identifier: Apache-2.0
//
// The mount points of the kernel's file systems on this machine.
#pragma once

#include "producer/sources/source.h"

// Returns where tracefs is mounted, or NULL. The string is constant.
const char *source_roots_tracefs(void);

// Finds tracefs, and mounts it if necessary and permitted. A missing file system is NULL in *ret.
// The strings are constant.
void source_roots_find(struct source_roots *ret);
