// SPDX-License-Identifier: Apache-2.0
//
// The objects that the program began with. They are never unloaded, so their entries can be changed
// without the loader's lock.
#pragma once

#include "producer/agents/heap/got.h"

// Once, before the program begins.
void first_objects_note(void);

// As got_walk_objects(), of these alone: takes no lock, and may be called in a signal handler.
void first_objects_walk(struct got_walk *walk);
