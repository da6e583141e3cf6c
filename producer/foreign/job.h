// SPDX-License-Identifier: Apache-2.0
//
// The jobs of a helper. A job is a function that runs in the helper's process, where it may block,
// and one row in foreign_jobs[] (producer/sources/foreign_jobs.c).
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FOREIGN_MESSAGE_MAX (60u << 10) // bytes of a request, and of an answer

// The environment of a job. The jobs of one helper run one after the other.
struct foreign_worker {
    const char *proc; // "/proc", or a folder with the same structure
    void **state;     // the group's state between jobs; NULL at first, never freed
};

struct foreign_request {
    const void *bytes; // aligned for any type; trusted, because the recorder wrote it
    size_t size;
    int fd; // -1: none; the job takes it by steal_fd(), otherwise it is closed
};

struct foreign_answer {
    int result;     // 0 or a negative errno
    uint8_t *bytes; // room for FOREIGN_MESSAGE_MAX
    size_t size;
    int fd; // owned; -1: none. Only for an object that this process has made: the recorder closes
            // the descriptor, and the close of another user's file may block
};

typedef void (*foreign_job_fn)(struct foreign_worker *worker, struct foreign_request *request,
                               struct foreign_answer *ret);

// Jobs of a group share their state.
enum foreign_group {
    FOREIGN_GROUP_SUMMONS,
    FOREIGN_GROUP_PERF_MAP,
    FOREIGN_GROUP_NAMES,
    FOREIGN_N_GROUPS
};

enum foreign_job_id {
    FOREIGN_SUMMONS_CLOSE,
    FOREIGN_WAKE_OPEN,
    FOREIGN_WAKE_SEND,
    FOREIGN_VM_OPEN,
    FOREIGN_VM_STATE,
    FOREIGN_PERF_MAP_READ,
    FOREIGN_PERF_MAP_FORGET,
    FOREIGN_NAMES_HOLD,
    FOREIGN_NAMES_FIND,
    FOREIGN_NAMES_TABLES,
};

struct foreign_job {
    const char *name; // for messages: "a summons"
    foreign_job_fn run;
    enum foreign_group group;
    void (*end)(void *state); // called when the helper ends in order; NULL: nothing to do
};

#define FOREIGN_JOBS_MAX 32

extern const struct foreign_job foreign_jobs[FOREIGN_JOBS_MAX]; // rows without `run` are unused
