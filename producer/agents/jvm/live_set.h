// SPDX-License-Identifier: Apache-2.0
//
// Which sampled objects are still in use: a weak reference to each, and the key of its stack. Any
// thread of the VM may call.
#pragma once

#include <jni.h>
#include <stdint.h>

struct live_set;

// NULL: out of memory. Never freed, as callbacks may be under way until the process ends.
struct live_set *live_set_new(void);

void live_set_add(struct live_set *live, JNIEnv *env, jobject object, uint64_t stack_key);

// Writes `log_path` + ".live": the definitions of the log, then a sample for each object that is
// still in use, and ends: nothing is added any more, and no reference is left. The log must be
// flushed. 0 or a negative errno.
int live_set_write(struct live_set *live, JNIEnv *env, const char *log_path);

// Objects that found no place.
uint64_t live_set_n_lost(struct live_set *live);
