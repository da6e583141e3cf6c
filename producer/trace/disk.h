// SPDX-License-Identifier: Apache-2.0
//
// A thread for work that may wait for a disk, because a recorder that waits for a disk in a storm
// records nothing. Jobs run in their order.
#pragma once

#include <stdbool.h>

#include "producer/ground/loop.h"

struct disk;

// The owner must not touch the job while `busy`.
struct disk_job {
    void (*work)(struct disk_job *job); // called in the thread: no allocation, only the job's data
    void (*done)(struct disk_job *job); // called in the loop, with `busy` false. NULL: no call
    void *owner;
    bool busy;
    struct disk_job *next;
};

// `loop` is borrowed. Returns 0 or a negative errno.
int disk_new(struct loop *loop, struct disk **ret);
// Waits for all jobs and calls their `done`. Takes NULL. Returns NULL.
struct disk *disk_free(struct disk *disk);

void disk_run(struct disk *disk, struct disk_job *job);

// Waits for the job, without a call of `done`. No effect if the job is not busy.
void disk_wait(struct disk *disk, struct disk_job *job);
