// SPDX-License-Identifier: Apache-2.0
//
// Where this machine has the kernel's file systems.
#pragma once

#include "producer/sources/source.h"

// Looks for tracefs, and mounts it where that is allowed and necessary. What cannot be had is NULL
// there; the strings are constant.
void source_roots_find(struct source_roots *ret);
