// SPDX-License-Identifier: Apache-2.0
//
// The VM's end of a profile (producer/heap/heap_abi.h): asks a recorder for a ring, and
// writes methods, samples and frees into it. Knows nothing of VMs. Any thread may call; one short
// lock per call, never held while somebody is asked for a name, and nothing waits for the recorder.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/agents/jvm/sample_log.h"

struct trace_ring;

// NULL: out of memory. Never freed, as callbacks may be under way until the process ends.
struct trace_ring *trace_ring_new(void);

// Asks at `socket` and begins a profile. Takes at most seconds. *ret_interval_bytes: how many
// allocated bytes there are to a sample, at least 1. Negative errno: nobody wants this process
// (now).
int trace_ring_connect(struct trace_ring *ring, const char *socket, uint64_t *ret_interval_bytes);

// Until the recorder has ended the profile, or died (true), or `wake_fd` is readable (false).
bool trace_ring_wait(struct trace_ring *ring, int wake_fd);

void trace_ring_disconnect(struct trace_ring *ring); // nothing where there is no profile

// The number of the sample, which no other has had; 0: there is no profile, or it was lost. Frames
// are from the innermost out. `weight` is the bytes it stands for.
uint64_t trace_ring_add(struct trace_ring *ring, const struct sample_frame *frames, size_t n,
                        uint64_t weight, sample_frame_fn name, void *userdata);

// The object of that sample is gone. Also for samples of former profiles.
void trace_ring_free(struct trace_ring *ring, uint64_t number);
