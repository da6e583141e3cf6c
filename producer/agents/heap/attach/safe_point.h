// SPDX-License-Identifier: Apache-2.0
//
// Judges whether a stopped thread may call dlopen().
#pragma once

#include <stdbool.h>

#include "producer/agents/heap/attach/target.h"
#include "producer/agents/heap/attach/tracee.h"

// Returns true if the thread's whole stack is known, down to the thread's start, and no code on it
// may hold anything that dlopen() needs.
bool safe_point_is_here(const struct target *target, const struct tracee *tracee);
