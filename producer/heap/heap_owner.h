// SPDX-License-Identifier: Apache-2.0
//
// Who reads a ring (heap_abi.h), and whether there still is somebody to do so.
#pragma once

#include <stdbool.h>

#include "producer/heap/heap_abi.h"

struct heap_owner heap_owner_self(void);

// By what `proc` (/proc) and the kernel say. False also where it cannot be known, as of a recorder
// in another container, or of another user's where /proc hides those.
bool heap_owner_is_gone(const char *proc, const struct heap_owner *owner);
