// SPDX-License-Identifier: Apache-2.0
//
// Attaching to processes that run already, by way of the helper mmheap-attach, which is a process
// of its own: the recorder's loop goes on meanwhile.
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
    struct loop *loop; // borrowed, as the other
    struct foreign *foreign;
};

// The end of it, once. `ring_fd` belongs to the callee, -1 where `result` < 0; `text` says why.
typedef void (*heap_attach_fn)(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                               int ring_fd, const char *text);

// 0: `done` will be called from the loop, or by heap_attach_finish(). -ENOENT: there is no helper.
int heap_attach_begin(const struct heap_attach_env *env, const struct ring_options *options,
                      int32_t pid, heap_attach_fn done, void *userdata, struct heap_attach **ret,
                      struct err *err);

// The same for a Java VM, which is told to load its agent with `options`, by the helper
// mmjava-attach. There is no ring; the agent comes for it.
int heap_attach_begin_java(const struct heap_attach_env *env, const char *options, int32_t pid,
                           heap_attach_fn done, void *userdata, struct heap_attach **ret,
                           struct err *err);

// Nobody waits for a VM any more: the end comes soon.
void heap_attach_hurry(struct heap_attach *attach);

// Waits for the end of it, five seconds at most, and calls `done`.
void heap_attach_finish(struct heap_attach *attach);

// Another one hears of the end.
void heap_attach_set_done(struct heap_attach *attach, heap_attach_fn done, void *userdata);

int32_t heap_attach_pid(const struct heap_attach *attach);

// How long the thread that was borrowed stood still.
nsec_t heap_attach_stopped(const struct heap_attach *attach);

// After the end.
struct heap_attach *heap_attach_free(struct heap_attach *attach);

// Starts a helper that takes the hooks out of a process, unless the process does so itself within
// some milliseconds, which its ring (borrowed) tells. 0: there is no helper. heap_attach_wait()
// waits for it, two seconds at most; `pidfd` (borrowed) is its, or -1: it ends unseen.
pid_t heap_attach_detach(int32_t pid, int ring_fd);
void heap_attach_wait(struct foreign *foreign, pid_t helper, int pidfd);
