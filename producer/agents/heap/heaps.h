// SPDX-License-Identifier: Apache-2.0
//
// The program's own heaps (api/mmheap.h): finds them in the objects, and switches them on and off
// with the profile. All functions but the reports are called under the client's lock.
#pragma once

#include <link.h>
#include <stdbool.h>

#include "producer/heap/ring_writer.h"

// Forgets all heap numbers when a profile begins.
void heaps_reset(void);

// One round over the loaded objects: call begin, then seen for each object, then end. The end
// returns false if the ring had no room for all heaps.
void heaps_begin(struct ring_writer *ring);
void heaps_seen(const struct dl_phdr_info *info);
bool heaps_end(void);

// Returns the largest interval that the recorder asks for, malloc's included.
uint64_t heaps_largest_interval(const struct heap_header *header);

// Switches off the heaps of an object.
void heaps_leave(const struct dl_phdr_info *info);
