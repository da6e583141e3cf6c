// SPDX-License-Identifier: Apache-2.0
//
// A thread for work that may wait for a disk, because a recorder that waits for a disk in a storm
// records nothing. Jobs run one after the other, in their order.
#pragma once

#include <stdbool.h>

#include "producer/ground/loop.h"

struct disk;

// Belongs to the owner, who does not touch it while `busy`.
struct disk_job {
    void (*work)(struct disk_job *job); // in the thread: no allocation, only the job's data
    void (*done)(struct disk_job *job); // in the loop; `busy` is false then. NULL: no call
    void *owner;
    bool busy;
    struct disk_job *next;
};

// `loop` is borrowed. Returns 0 or a negative errno.
int disk_new(struct loop *loop, struct disk **ret);
// Waits for all jobs and calls their `done`. Takes NULL, returns NULL.
struct disk *disk_free(struct disk *disk);

void disk_run(struct disk *disk, struct disk_job *job);

// Waits until the job is done, without a call of `done`. No effect if the job is not busy.
void disk_wait(struct disk *disk, struct disk_job *job);
