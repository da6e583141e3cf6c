// SPDX-License-Identifier: Apache-2.0
//
// What a ring that keeps both its ends has lost between them: how many events of which task, and
// the events without which a reader would put the two ends together wrongly.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/event_set.h"
#include "producer/trace/packet_writer.h"

struct lost_events;

// `events` (borrowed) say what the numbers in the packets mean. Memory is taken here, once. NULL:
// no memory.
struct lost_events *lost_events_new(const struct event_set *events);
struct lost_events *lost_events_free(struct lost_events *lost);

// A packet of the source that the buffer gives up.
void lost_events_add(struct lost_events *lost, const uint8_t *packet, size_t size);

// Writes the events that have to be there after all, each once. How many.
uint64_t lost_events_write_ends(struct lost_events *lost, struct packet_writer *writer);

// Writes the sums of each task, as slices on tracks of their own. At the end.
void lost_events_write_sums(struct lost_events *lost, struct packet_writer *writer);
