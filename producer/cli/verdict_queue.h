// SPDX-License-Identifier: Apache-2.0
//
// The daemon's verdicts: on each trace that it has written, one after the other, into its log.
#pragma once

#include "common/log.h"
#include "producer/ground/loop.h"

#define VERDICT_QUEUE_MAX 16 // traces that wait; further traces get no verdict

struct verdict_queue;

// `loop` and `log` are borrowed. 0 or a negative errno.
int verdict_queue_new(struct loop *loop, const struct log *log, struct verdict_queue **ret);

// Queues a complete file. The file is opened now, and may be removed while it waits.
void verdict_queue_add(struct verdict_queue *queue, const char *path);

// Ends the running verdict and drops the waiting ones. Takes NULL, returns NULL.
struct verdict_queue *verdict_queue_free(struct verdict_queue *queue);
