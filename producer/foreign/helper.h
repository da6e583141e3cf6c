// SPDX-License-Identifier: Apache-2.0
//
// Runs work that may block for ever in a helper, a process of its own. Other users can cause this
// blocking: a path look-up below their mounts, a read of a file there, the close of a descriptor
// that they sent. Each job has a deadline. The recorder's loop asks and goes on.
//
// A recorder has one `struct foreign`. A session has one helper, which starts with the first job.
// One job runs at a time. Waiting jobs are served in turn by payer (payer.h), so that a user with
// many jobs delays others by one job only. If a job is late, its helper is killed, another helper
// takes over, and the payer is refused for a while. The kernel cannot end a process that waits for
// a file system of the payer's making. This process is left behind and counted, and nothing waits
// for it.
//
//     foreign_new() once; foreign_helper_new() for each session
//     foreign_helper_ask(..., done, ...)      the loop calls done() with the answer
//     foreign_helper_settle(helper, deadline) where the answer is needed now: a bounded wait
//
// The helper needs CAP_SYS_PTRACE (root directories of other processes), CAP_SETUID and CAP_SETGID
// (ids.h), and CAP_DAC_READ_SEARCH. A filter of system calls must permit clone, execve, openat2,
// setfsuid, setfsgid, setgroups and close_range. If one of these is missing, only the jobs that
// need it fail.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/foreign/job.h"
#include "producer/ground/loop.h"

#define FOREIGN_TIME      (2 * NSEC_PER_SEC) // for a job, or for a job without progress
#define FOREIGN_SHARE     30000000 // microseconds of one payer's jobs, at once and per minute
#define FOREIGN_REST      (60 * NSEC_PER_SEC)   // refusal of a payer after a late job
#define FOREIGN_GRACE     (300 * NSEC_PER_MSEC) // time to end for helpers that are no longer needed
#define FOREIGN_WAITING   1024                  // jobs of one payer that may wait in one session
#define FOREIGN_LEFT_EACH 2                     // hanging helpers of one payer
#define FOREIGN_LEFT_ALL  16 // hanging helpers in all; beyond that only root's jobs are done

#define FOREIGN_OWN_PROGRAM "/proc/self/exe"

struct foreign;
struct foreign_helper;
struct foreign_call;

struct foreign_options {
    struct loop *loop; // borrowed, as all members here
    const struct log *log;
    const char *proc;
    // The program to run as a helper, with the name FOREIGN_HELPER_NAME (worker.h): the recorder's
    // own program, FOREIGN_OWN_PROGRAM. NULL: this process forks instead, which copies its memory.
    const char *program;
    const struct foreign_job *jobs; // used if `program` is NULL; NULL: foreign_jobs
};

int foreign_new(const struct foreign_options *options, struct foreign **ret);
// Call it after all helpers were freed. Helpers end in order within FOREIGN_GRACE, or are killed.
// Does not wait for helpers that hang. Returns NULL.
struct foreign *foreign_free(struct foreign *foreign);

// Returns the microseconds that jobs for `payer` may still take at once; UINT64_MAX means no limit.
// A job spends the time in which it runs or is blocked. Time in which other processes have the
// processor does not count.
uint64_t foreign_time_left(struct foreign *foreign, uint64_t payer);

// Takes over and reaps another child of the recorder, which may hang in a file system of `payer`.
// Kills the process now if `is_killed`; otherwise after FOREIGN_GRACE if it has not ended. Does not
// wait.
void foreign_leave(struct foreign *foreign, pid_t pid, uint64_t payer, bool is_killed);

// Returns -EDQUOT, with the reason, if so many killed helpers hang that `payer` gets no other
// helper; else 0.
int foreign_check_left(struct foreign *foreign, uint64_t payer, struct err *err);

// Closes a connection of another process, or a listening socket; -1: none. Messages that were not
// received may hold descriptors whose close blocks, and the close of the socket closes these, too.
void foreign_close_socket(struct foreign *foreign, int fd);
// Closes a file of another process, whose last close frees what the process made: a large deleted
// file, or a whole mount namespace. Another process does this, for `payer`. A NULL `foreign` closes
// the file at once.
void foreign_close_file(struct foreign *foreign, int fd, uint64_t payer);
// Returns true if too many sockets wait for their close: then no more may be accepted.
bool foreign_is_full(struct foreign *foreign);

int foreign_helper_new(struct foreign *foreign, struct foreign_helper **ret);
// Unfinished calls end with -ECANCELED. Does not wait for the end of the process. Returns NULL.
struct foreign_helper *foreign_helper_free(struct foreign_helper *helper);

// Reports the end of a call. The loop or foreign_helper_settle() calls this function;
// foreign_helper_ask() never does. `result` is the job's result; -ETIMEDOUT if this job, or another
// one of the payer, was late; -EPIPE if the helper died or could not be started; or -ECANCELED if
// the helper is being freed: then it takes no more jobs. `answer` is borrowed. `fd` is owned by the
// callee; -1: none. Data in the answer that the job took from another user are unchecked.
typedef void (*foreign_done_fn)(void *userdata, int result, const void *answer, size_t size,
                                int fd);

struct foreign_ask {
    enum foreign_job_id job;
    uint64_t payer;
    const void *bytes; // copied; at most FOREIGN_MESSAGE_MAX
    size_t size;
    int fd; // taken over in every case; -1: none
    // The time of the whole job; 0: FOREIGN_TIME. A job may take longer than FOREIGN_TIME only
    // while its process reads, computes, or waits for a processor. While it waits for a processor
    // it may even exceed this time.
    nsec_t time_max;
};

// Asks for a job. Returns 0; -EDQUOT or -ETIMEDOUT if the payer is refused, with the reason in
// `err`; -ENOMEM; or -EMSGSIZE. *ret is for foreign_call_cancel() and valid until `done` was
// called; `ret` may be NULL.
int foreign_helper_ask(struct foreign_helper *helper, const struct foreign_ask *ask,
                       foreign_done_fn done, void *userdata, struct foreign_call **ret,
                       struct err *err);
// Prevents the call of `done`. The job may still run.
void foreign_call_cancel(struct foreign_call *call);

// Waits until all calls are done, at most until `deadline` (CLOCK_MONOTONIC). Returns false if some
// are not done.
bool foreign_helper_settle(struct foreign_helper *helper, nsec_t deadline);

struct foreign *foreign_of(const struct foreign_helper *helper);

// Returns the number of jobs that wait or run.
size_t foreign_helper_n_calls(const struct foreign_helper *helper);
