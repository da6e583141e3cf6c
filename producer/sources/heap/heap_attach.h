// SPDX-License-Identifier: Apache-2.0
//
// Attaches to running processes through mmheap-attach, a process of its own, while the recorder's
// loop goes on.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "producer/ground/loop.h"
#include "producer/sources/heap/ring_reader.h"

#define HEAP_ATTACH_HELPER      "mmheap-attach"
#define HEAP_ATTACH_JAVA_HELPER "mmjava-attach"

struct foreign;
struct heap_attach;

struct heap_attach_env {
    struct loop *loop; // borrowed, as all members
    struct foreign *foreign;
    // Start of the first attempt, if this one follows an attempt that ended with -ESTALE; 0: now.
    nsec_t first;
};

// The callback at the end of the attachment, called once. The callee owns `ring_fd`, which is -1 if
// `result` < 0; `text` is the reason. -ESTALE: the process has executed another program meanwhile.
typedef void (*heap_attach_fn)(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                               int ring_fd, const char *text);

// Attaches to a native program with `options`. With `java_options` (not NULL), makes a Java VM load
// its agent with these options instead; the agent asks for its ring itself, and `ring_fd` stays -1.
// Returns 0 if `done` will be called, from the loop or by heap_attach_finish(); -ENOENT without a
// helper; or another negative errno.
int heap_attach_begin(const struct heap_attach_env *env, const struct ring_options *options,
                      const char *java_options, int32_t pid, heap_attach_fn done, void *userdata,
                      struct heap_attach **ret, struct err *err);

// Asks the helper of an attachment to a VM to end early. No effect for a native program.
void heap_attach_hurry(struct heap_attach *attach);

#define HEAP_ATTACH_FINISH (5 * NSEC_PER_SEC) // for all that a caller waits for

// Waits for the end, until `deadline` (CLOCK_MONOTONIC) at most, and calls `done`.
void heap_attach_finish(struct heap_attach *attach, nsec_t deadline);

// Replaces the callback.
void heap_attach_set_done(struct heap_attach *attach, heap_attach_fn done, void *userdata);

int32_t heap_attach_pid(const struct heap_attach *attach);
// Returns the user behind the process (payer.h).
uint64_t heap_attach_payer(const struct heap_attach *attach);

// Returns when the first attempt to attach to this process began (CLOCK_BOOTTIME).
nsec_t heap_attach_first(const struct heap_attach *attach);

// Returns the time for which the borrowed thread stood still.
nsec_t heap_attach_stopped(const struct heap_attach *attach);

// Frees the attachment after its end.
struct heap_attach *heap_attach_free(struct heap_attach *attach);

// Starts a helper that takes the hooks out of a process, unless the process does so itself within
// some milliseconds, as its ring (borrowed) shows. Returns the helper's pid, or 0 without a helper.
// heap_attach_wait() waits for the helper, at most two seconds. `pidfd` (borrowed) is the helper's;
// -1: no wait.
pid_t heap_attach_detach(int32_t pid, int ring_fd);
void heap_attach_wait(struct foreign *foreign, pid_t helper, int pidfd);
