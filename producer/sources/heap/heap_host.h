// SPDX-License-Identifier: Apache-2.0
//
// What all heap profiles of one recorder share, and what outlives a single one: the sockets at
// which preloaded programs and Java VMs ask whether somebody wants them, and the helpers that take
// hooks out of processes while the recorder goes on.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/ground/loop.h"
#include "producer/sources/heap/heap_door.h"

struct foreign;
struct heap_attach;
struct heap_host;

// Where preloaded programs look for a recorder that did not start them: MMTRACE_HEAP_SOCKET, or a
// path. Borrowed from the environment, or constant.
const char *heap_host_socket_name(void);

struct heap_host_options {
    struct loop *loop; // borrowed, as the others
    struct foreign *foreign;
    const struct log *log;
    const char *socket_name; // NULL: nobody comes; of that for VMs, HEAP_JAVA_SUFFIX comes behind
    // The socket is one recording's own: all programs that it wants come there, or it fails.
    bool is_private;
    // There is one recording, and nobody is in its way when its end waits for processes.
    bool is_alone;
};

// What the options have outlives it.
int heap_host_new(const struct heap_host_options *options, struct heap_host **ret);
struct heap_host *heap_host_free(struct heap_host *host); // waits for the helpers

bool heap_host_is_private(const struct heap_host *host);
bool heap_host_is_alone(const struct heap_host *host);

// From here until heap_host_leave() programs are asked about. The socket is there as long as
// somebody has joined; if it cannot be, that is an error only where it is private.
int heap_host_join(struct heap_host *host, heap_host_fn asks, void *userdata, struct err *err);
// The same for VMs.
int heap_host_join_java(struct heap_host *host, heap_host_fn asks, void *userdata, struct err *err);
void heap_host_leave(struct heap_host *host, const void *userdata);

// Has the hooks taken out of a process that does not do so by itself soon. `ring_fd` is borrowed.
void heap_host_detach(struct heap_host *host, int32_t pid, int ring_fd);
// Whether that is still under way.
bool heap_host_is_detaching(struct heap_host *host, int32_t pid);

// Takes over an attach that nobody waits for any more: its process is let go at once.
void heap_host_adopt(struct heap_host *host, struct heap_attach *attach);
