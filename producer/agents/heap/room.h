// SPDX-License-Identifier: Apache-2.0
//
// Room in the ring, and threads that wait for room. For threads inside client_enter().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/ring_writer.h"

// Returns a record to fill in and pass to ring_commit(), or NULL if the record is lost.
void *room_for_alloc(size_t size);
void *room_for_free(size_t size);

// Returns true if nothing would fit and no thread would wait.
bool room_is_hopeless(void);

// Returns false while the ring is full: objects cannot be reported then.
bool room_is_there_for_objects(void);
