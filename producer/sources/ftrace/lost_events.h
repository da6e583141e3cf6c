// SPDX-License-Identifier: Apache-2.0
//
// A ring can keep both ends of a flood: its first packets and its newest packets. The events
// between the two ends are dropped. This file counts the dropped events of each task, and writes
// those again that a reader needs to join the two ends correctly.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/event_set.h"
#include "producer/trace/packet_writer.h"

struct lost_events;

// `events` (borrowed) gives the meaning of the numbers in the packets. All memory is allocated
// here, once. Returns NULL if memory ran out.
struct lost_events *lost_events_new(const struct event_set *events);
struct lost_events *lost_events_free(struct lost_events *lost);

// Adds a packet that the buffer is about to drop.
void lost_events_add(struct lost_events *lost, const uint8_t *packet, size_t size);

// Writes the events that the reader needs, each once. Returns their number.
uint64_t lost_events_write_ends(struct lost_events *lost, struct packet_writer *writer);

// Writes the sums of each task, as slices on tracks of their own. Call it at the end.
void lost_events_write_sums(struct lost_events *lost, struct packet_writer *writer);
