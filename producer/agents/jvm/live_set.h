// SPDX-License-Identifier: Apache-2.0
//
// The sampled objects that are still in use: a weak reference to each, and the key of its stack.
// Any thread of the VM may call these.
#pragma once

#include <jni.h>
#include <stdint.h>

struct live_set;

// Returns NULL if memory ran out. Never freed, because callbacks may run until the process ends.
struct live_set *live_set_new(void);

void live_set_add(struct live_set *live, JNIEnv *env, jobject object, uint64_t stack_key);

// Writes `log_path` + ".live": the definitions of the log, then a sample for each object that is
// still in use. Afterwards the set takes no more objects and holds no references. The log must be
// flushed. Returns 0 or a negative errno.
int live_set_write(struct live_set *live, JNIEnv *env, const char *log_path);

// Returns the number of objects that found no place.
uint64_t live_set_n_lost(struct live_set *live);
