// SPDX-License-Identifier: Apache-2.0
//
// Who reads a ring (heap_abi.h), and whether there still is somebody to do so.
#pragma once

#include <stdbool.h>

#include "producer/agents/heap/heap_abi.h"

struct heap_owner heap_owner_self(void);

// False also where it cannot be known, as of a recorder in another container.
bool heap_owner_is_gone(const struct heap_owner *owner);
