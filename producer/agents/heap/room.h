// SPDX-License-Identifier: Apache-2.0
//
// Room in the ring, and who waits for it. For threads that have entered.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/ring_writer.h"

// A record to fill in and ring_commit(). NULL: it is lost.
void *room_for_alloc(size_t size);
void *room_for_free(size_t size);

// Nobody would wait, and nothing would fit.
bool room_is_hopeless(void);

// Objects cannot be told of while the ring is full.
bool room_is_there_for_objects(void);
