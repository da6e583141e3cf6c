// SPDX-License-Identifier: Apache-2.0
//
// Shared by all heap profiles of one recorder: the sockets at which preloaded programs and Java VMs
// ask for a profile, and the helpers that take hooks out of processes while the recorder goes on.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/ground/loop.h"

struct budget_limits;
struct foreign;
struct heap_attach;
struct heap_host;

// Returns the socket at which preloaded programs look for a recorder that did not start them: the
// value of MMTRACE_HEAP_SOCKET, or a path. Borrowed from the environment, or constant.
const char *heap_host_socket_name(void);

struct heap_host_options {
    struct loop *loop; // borrowed, as all members
    struct foreign *foreign;
    const struct log *log;
    const char *proc;
    const char *socket_name; // NULL: no program can ask; the socket for VMs has HEAP_JAVA_SUFFIX in
                             // addition
    // The socket belongs to one recording: all programs that ask there are wanted, and a missing
    // socket is an error.
    bool is_private;
    // There is one recording. Its end may wait for processes, because nothing else waits for it.
    bool is_alone;
    const struct budget_limits *connections; // of one user at the sockets; NULL: the usual limits
};

// Makes a host. Everything in `options` must outlive the host.
int heap_host_new(const struct heap_host_options *options, struct heap_host **ret);
struct heap_host *heap_host_free(struct heap_host *host); // waits for the helpers

bool heap_host_is_private(const struct heap_host *host);
bool heap_host_is_alone(const struct heap_host *host);

// The callback for a program that asks over *fd. `taken`: another recording has taken the program.
// Returns true to take the program, and may take over *fd then.
typedef bool (*heap_host_fn)(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken);

// Calls `asks` for each program, or Java VM, that asks, until heap_host_leave(). The socket exists
// while anyone has joined. Fails only if the socket is private and cannot be made.
int heap_host_join(struct heap_host *host, bool is_java, heap_host_fn asks, void *userdata,
                   struct err *err);
void heap_host_leave(struct heap_host *host, const void *userdata);
// Returns the socket at which native programs can ask at the moment, or NULL. Borrowed.
const char *heap_host_native_socket(const struct heap_host *host);

// Takes the hooks out of a process that does not do so itself soon. `ring_fd` is borrowed.
void heap_host_detach(struct heap_host *host, int32_t pid, int ring_fd);
// Returns whether the hooks are still being taken out.
bool heap_host_is_detaching(struct heap_host *host, int32_t pid);

// Takes over an attachment for which no profile waits any more. Releases the process when the
// attachment ends.
void heap_host_adopt(struct heap_host *host, struct heap_attach *attach);
