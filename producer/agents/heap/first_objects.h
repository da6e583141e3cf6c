// SPDX-License-Identifier: Apache-2.0
//
// The objects that the program began with. They are never unloaded. Therefore their entries can be
// changed without the loader's lock.
#pragma once

#include "producer/agents/heap/got.h"

// Notes the objects. Call it once, before the program begins.
void first_objects_note(void);

// Walks over these objects alone, as got_walk_objects() does over all. Takes no lock and is safe in
// a signal handler.
void first_objects_walk(struct got_walk *walk);
