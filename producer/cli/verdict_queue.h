// SPDX-License-Identifier: Apache-2.0
//
// The daemon's verdicts: one for each trace that the daemon has written, in the daemon's log.
#pragma once

#include "common/log.h"
#include "producer/ground/loop.h"

#define VERDICT_QUEUE_MAX 16 // waiting traces; further traces get no verdict

struct verdict_queue;

// `loop` and `log` are borrowed. Returns 0 or a negative errno.
int verdict_queue_new(struct loop *loop, const struct log *log, struct verdict_queue **ret);

// Queues a complete file. The file is opened now, and may be removed meanwhile.
void verdict_queue_add(struct verdict_queue *queue, const char *path);

// Ends the running verdict and drops the waiting verdicts. Takes NULL. Returns NULL.
struct verdict_queue *verdict_queue_free(struct verdict_queue *queue);
