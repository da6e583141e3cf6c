// SPDX-License-Identifier: Apache-2.0
//
// The VM's end of a profile (producer/heap/heap_abi.h): asks a recorder for a ring, and writes
// methods, samples and frees into it. Knows nothing of VMs. Thread-safe: one short lock per call,
// which is never held while a name is looked up. Nothing waits for the recorder.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/agents/jvm/sample_log.h"

struct trace_ring;

// Returns NULL if memory ran out. Never freed, because callbacks may run until the process ends.
struct trace_ring *trace_ring_new(void);

// Asks for a ring at `socket` and begins a profile. Takes seconds at most. *ret_interval_bytes is
// the number of allocated bytes per sample, at least 1. Returns 0, or a negative errno if no
// recorder wants this process now.
int trace_ring_connect(struct trace_ring *ring, const char *socket, uint64_t *ret_interval_bytes);

// Waits until the recorder has ended the profile or died (true), or `wake_fd` is readable (false).
bool trace_ring_wait(struct trace_ring *ring, int wake_fd);

void trace_ring_disconnect(struct trace_ring *ring); // no effect without a profile

// Adds a sample. Returns its number, which is unique; 0 if there is no profile or the sample was
// lost. Frames are innermost first. `weight` is the bytes that the sample stands for.
uint64_t trace_ring_add(struct trace_ring *ring, const struct sample_frame *frames, size_t n,
                        uint64_t weight, sample_frame_fn name, void *userdata);

// Writes that the object of a sample is gone. Permitted for samples of earlier profiles.
void trace_ring_free(struct trace_ring *ring, uint64_t number);
