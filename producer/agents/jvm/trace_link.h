// SPDX-License-Identifier: Apache-2.0
//
// Between a VM and the recorders that want its heap: a thread of its own looks for one each second,
// has the VM tell of samples as long as there is a profile, and of nothing otherwise.
#pragma once

#include <jvmti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/agent_options.h"

struct trace_link;

// The capabilities must be there: of allocations, can_tag_objects, can_generate_object_free_events.
// NULL: out of memory. Never freed, once it has begun.
struct trace_link *trace_link_new(JavaVM *vm, jvmtiEnv *jvmti, const struct agent_options *options);
void trace_link_drop(struct trace_link *link); // that has not begun

// Once the VM is live. `at_start`: what the program allocates first is in the profile; that may
// take two seconds where a recorder is there and does not answer. False: there is no thread to be
// had.
bool trace_link_begin(struct trace_link *link, bool at_start);
// For good. `disposes`: then the JVMTI environment goes, too, some time later.
void trace_link_end(struct trace_link *link, bool disposes);

// What was asked for later, while it runs: a socket for once or for all time to come.
void trace_link_turn(struct trace_link *link, const struct agent_options *options);

// How likely an allocation of that size is to be a sample.
double trace_link_chance(const struct trace_link *link, int64_t size_bytes);

// The VM's events. The sample: on the thread that allocated. The end of a tagged object: anywhere,
// also where the VM may not be asked anything.
void trace_link_sample(struct trace_link *link, JNIEnv *jni, jobject object, int64_t size_bytes);
void trace_link_freed(struct trace_link *link, int64_t tag);
