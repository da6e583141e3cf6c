// SPDX-License-Identifier: Apache-2.0
//
// The process that reads a ring (heap_abi.h).
#pragma once

#include <stdbool.h>

#include "producer/heap/heap_abi.h"

struct heap_owner heap_owner_self(void);

// Returns whether the owner is gone, according to `proc` (/proc) and the kernel. Returns false also
// if the answer is unknown: for a recorder in another container, or for another user's recorder
// that /proc hides.
bool heap_owner_is_gone(const char *proc, const struct heap_owner *owner);

// Tells the client of the memfd `ring_fd`, whose ring has no reader, to end its profile.
void heap_owner_stop(int ring_fd);
