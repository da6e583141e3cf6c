// SPDX-License-Identifier: Apache-2.0
//
// A thread for what may have to wait for a disk: a recorder that waits for one in the middle of a
// storm records nothing. Jobs are done one after the other, in their order.
#pragma once

#include <stdbool.h>

#include "producer/ground/loop.h"

struct disk;

// The owner's, and untouched by it while `busy`.
struct disk_job {
    void (*work)(struct disk_job *job); // in the thread: no allocation, nothing but its own data
    void (*done)(struct disk_job *job); // in the loop; `busy` is false then. NULL: nobody asks
    void *owner;
    bool busy;
    struct disk_job *next;
};

// The loop is borrowed.
int disk_new(struct loop *loop, struct disk **ret);
// Waits for all jobs; what they have done is told. Takes NULL, returns NULL.
struct disk *disk_free(struct disk *disk);

void disk_run(struct disk *disk, struct disk_job *job);

// Waits until the job is done, without telling. Nothing happens where it is not busy.
void disk_wait(struct disk *disk, struct disk_job *job);
