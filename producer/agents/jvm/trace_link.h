// SPDX-License-Identifier: Apache-2.0
//
// The link between a VM and the recorders that want its heap. A thread looks for a recorder every
// second. The VM reports samples only while there is a profile.
#pragma once

#include <jvmti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/agent_options.h"

struct trace_link;

// The VM must have the capabilities for allocation events, can_tag_objects and
// can_generate_object_free_events. Returns NULL if memory ran out. Never freed once it has begun.
struct trace_link *trace_link_new(JavaVM *vm, jvmtiEnv *jvmti, const struct agent_options *options);
void trace_link_drop(struct trace_link *link); // for a link that has not begun

// Begins the link. The VM must be live. `at_start`: the profile includes the program's first
// allocations; this may take as long as recorder_wait_max() says if a recorder exists and does not
// answer. Returns false if no thread could be made.
bool trace_link_begin(struct trace_link *link, bool at_start);
// Ends the link for good. `disposes`: the JVMTI environment is disposed too, some time later.
void trace_link_end(struct trace_link *link, bool disposes);

// Applies options that arrive while the link runs: a socket to use once, or from now on.
void trace_link_turn(struct trace_link *link, const struct agent_options *options);

// Returns the probability that an allocation of that size is a sample.
double trace_link_chance(const struct trace_link *link, int64_t size_bytes);

// Called for events of the VM. trace_link_sample(): a sample, on the allocating thread.
// trace_link_freed(): the end of a tagged object, on any thread, even where the VM may not be
// called.
void trace_link_sample(struct trace_link *link, JNIEnv *jni, jobject object, int64_t size_bytes);
void trace_link_freed(struct trace_link *link, int64_t tag);
