// SPDX-License-Identifier: Apache-2.0
//
// Work that may block for ever on somebody else's word (a look-up below the mounts of a stranger,
// a read of a file there, the end of a descriptor that came from one) is done by a helper: a
// process of its own, with a time by which each job has to be done. The recorder's loop asks and
// goes on.
//
// A recorder has one `struct foreign`; a session has one helper, which starts when it is first
// asked. One job is under way at a time; those who wait are served in turn by payer (payer.h), so
// that a user with many jobs delays others by one job. A job that is late costs the helper its
// life: it is killed, another one takes over, and the payer is refused for a while. A process that
// the kernel cannot end (it waits for a file system of the payer's making) is left behind and
// counted; nobody waits for it.
//
//     foreign_new() once; foreign_helper_new() for a session
//     foreign_helper_ask(..., done, ...)      done() comes from the loop, with the answer
//     foreign_helper_settle(helper, deadline) where the answer is needed now: a bounded wait
//
// The helper needs CAP_SYS_PTRACE (roots of others), CAP_SETUID and CAP_SETGID (ids.h),
// CAP_DAC_READ_SEARCH; a filter of system calls has to let through clone, execve, openat2,
// setfsuid, setfsgid, setgroups and close_range. What is missing costs the job that needs it.
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

#define FOREIGN_TIME      (2 * NSEC_PER_SEC) // that a job may take, or stand still
#define FOREIGN_SHARE     30000000 // microseconds that one payer may have at once, and each minute
#define FOREIGN_REST      (60 * NSEC_PER_SEC)   // for which a payer is refused after a late job
#define FOREIGN_GRACE     (300 * NSEC_PER_MSEC) // of helpers that nobody needs any more
#define FOREIGN_WAITING   1024                  // jobs of one payer that may wait, in one session
#define FOREIGN_LEFT_EACH 2                     // helpers that hang, of one payer
#define FOREIGN_LEFT_ALL  16                    // and of all: then only root's jobs are done

#define FOREIGN_OWN_PROGRAM "/proc/self/exe"

struct foreign;
struct foreign_helper;
struct foreign_call;

struct foreign_options {
    struct loop *loop; // borrowed, as all of these
    const struct log *log;
    const char *proc;
    // The program that is run as a helper, by the name FOREIGN_HELPER_NAME (worker.h): the
    // recorder's own, FOREIGN_OWN_PROGRAM. NULL: this process forks instead, which copies what it
    // has.
    const char *program;
    const struct foreign_job *jobs; // with `program` NULL; NULL: foreign_jobs
};

int foreign_new(const struct foreign_options *options, struct foreign **ret);
// After all its helpers, which end in good order within FOREIGN_GRACE or are killed. Does not wait
// for those that hang.
struct foreign *foreign_free(struct foreign *foreign);

// Microseconds that jobs for `payer` may still take at once; UINT64_MAX: any time. What jobs spend
// is the time in which they run or are blocked, not that in which others have the processor.
uint64_t foreign_time_left(struct foreign *foreign, uint64_t payer);

// For other children of the recorder that may hang in a file system of `payer`: takes over to reap
// the process, which is killed now (`is_killed`) or ends by itself within FOREIGN_GRACE. Does not
// wait.
void foreign_leave(struct foreign *foreign, pid_t pid, uint64_t payer, bool is_killed);

int foreign_helper_new(struct foreign *foreign, struct foreign_helper **ret);
// Calls that are not done yet end with -ECANCELED. Does not wait: the process ends by itself.
struct foreign_helper *foreign_helper_free(struct foreign_helper *helper);

// The end of a call, from the loop, or from foreign_helper_settle(); never from
// foreign_helper_ask(). `result` is the job's, or -ETIMEDOUT (it was late, or another one of this
// payer), -EPIPE (the helper has died, or could not be started), -ECANCELED (it is freed: nothing
// more can be asked). `answer` is borrowed, `fd` owned by the callee
// (-1: none). Everything in the answer that the job took from a stranger is as he wrote it.
typedef void (*foreign_done_fn)(void *userdata, int result, const void *answer, size_t size,
                                int fd);

struct foreign_ask {
    enum foreign_job_id job;
    uint64_t payer;
    const void *bytes; // copied; FOREIGN_MESSAGE_MAX at most
    size_t size;
    int fd; // taken over in every case; -1: none
    // In all; 0: FOREIGN_TIME. A job may take longer than FOREIGN_TIME only while its process
    // reads, computes, or waits for a processor; for the last of these, also longer than this.
    nsec_t time_max;
};

// 0; -EDQUOT or -ETIMEDOUT: the payer is refused, `err` says why; -ENOMEM, -EMSGSIZE.
// *ret (may be NULL) is for foreign_call_cancel() and valid until `done` was called.
int foreign_helper_ask(struct foreign_helper *helper, const struct foreign_ask *ask,
                       foreign_done_fn done, void *userdata, struct foreign_call **ret,
                       struct err *err);
// `done` will not be called. The job may be done all the same.
void foreign_call_cancel(struct foreign_call *call);

// Waits until all calls are done, at most until `deadline` (CLOCK_MONOTONIC). False: some are not.
bool foreign_helper_settle(struct foreign_helper *helper, nsec_t deadline);

// Jobs that wait or are under way.
size_t foreign_helper_n_calls(const struct foreign_helper *helper);
