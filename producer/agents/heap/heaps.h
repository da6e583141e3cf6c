// SPDX-License-Identifier: Apache-2.0
//
// Heaps of the program's own (api/mmheap.h): found in the objects, switched on and off with the
// profile. All but the reports are called under the client's lock.
#pragma once

#include <link.h>
#include <stdbool.h>

#include "producer/heap/ring_writer.h"

// A profile begins: no heap has a number.
void heaps_reset(void);

// A round over the loaded objects: begin, one call for each, end. False: there was no room to tell
// of all of them.
void heaps_begin(struct ring_writer *ring);
void heaps_seen(const struct dl_phdr_info *info);
bool heaps_end(void);

// The largest interval that the recorder asks for, malloc's included.
uint64_t heaps_largest_interval(const struct heap_header *header);

// Switches the heaps of an object off.
void heaps_leave(const struct dl_phdr_info *info);
