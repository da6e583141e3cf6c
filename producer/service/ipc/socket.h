// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets at Perfetto's places. A name is a path, or an abstract name behind `@`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/unix_socket.h"
#include "producer/sources/requester.h"

// The names of Perfetto's sockets: PERFETTO_CONSUMER_SOCK_NAME and PERFETTO_PRODUCER_SOCK_NAME,
// else in /run/perfetto if this folder exists, else in /tmp (Android: in /dev/socket). The
// producer's may be several names, separated by commas. Borrowed from the environment, or constant.
const char *ipc_consumer_socket_name(void);
const char *ipc_producer_socket_names(void);

// Our own sockets, beside Perfetto's, to reach a daemon while traced holds Perfetto's:
// "consumer.sock" and "producer.sock" in the daemon's run folder. Only root can make files there.
#define IPC_CONTROL_CONSUMER "consumer.sock"
#define IPC_CONTROL_PRODUCER "producer.sock"
#define IPC_CONTROL_VARIABLE "MMTRACE_SOCKETS"

// Returns the folder whose control sockets a client tries. The folder in MMTRACE_SOCKETS comes
// first. Returns NULL if `perfetto_variable` is set, because it says where the service is.
// *ret_only: no other sockets are to be tried.
const char *ipc_control_folder(const char *perfetto_variable, bool *ret_only);

// The uid of one more user whose service is trusted.
#define IPC_SERVER_UID_VARIABLE "MMTRACE_SERVER_UID"

// Returns 0 if the process behind the connected socket `name` belongs to root, to this process's
// user, or to the user in MMTRACE_SERVER_UID. Otherwise returns -EPERM with text: another user has
// taken the name. The check applies to every name, wherever it comes from.
int ipc_socket_check_owner(int fd, const char *name, struct err *err);

// For a daemon before it listens: makes /run/perfetto if the default names belong there and this
// process may. Errors show up when the daemon listens.
void ipc_socket_make_directory(void);

// Copies the name at `index` of a list with commas. Returns false if there is none or it is too
// long.
bool ipc_socket_list_get(const char *names, size_t index, char *ret, size_t ret_size);

#define IPC_GROUP_NONE UNIX_GROUP_NONE

// Makes a listening socket, non-blocking. A socket that a dead process left behind is replaced.
// `mode` and `group` apply to the path; IPC_GROUP_NONE keeps the group that the kernel gives.
// Returns 0 or a negative errno with text: -EADDRINUSE if a live process listens there. Returns
// UNIX_SOCKET_E_NO_GROUP, with the reason in `err`, if only the path's owner can connect.
int ipc_socket_listen(const char *name, mode_t mode, gid_t group, int *ret_fd, struct err *err);

// Connects; the socket is non-blocking afterwards. Returns 0 or a negative errno with text:
// -ECONNREFUSED or -ENOENT if nothing listens there.
int ipc_socket_connect(const char *name, nsec_t timeout, int *ret_fd, struct err *err);

// Waits for POLLIN or POLLOUT until `deadline` (CLOCK_MONOTONIC; NSEC_MAX: for ever). Returns 0,
// -ETIMEDOUT, -EINTR, or another negative errno.
int ipc_socket_wait(int fd, short events, nsec_t deadline);

// Receives without waiting. Returns the number of bytes, 0 at the end, or a negative errno. *ret_fd
// is the descriptor that came along (owned, close-on-exec), or -1; further ones are closed. If
// `ret_fd` is NULL, the kernel drops all descriptors.
int64_t ipc_socket_receive(int fd, void *bytes, size_t size, int *ret_fd);

struct ipc_credentials {
    pid_t pid;
    uid_t uid;
    gid_t gid;
    struct requester requester; // the peer's user with all its groups; no limits if trusted
};

int ipc_socket_credentials(int fd, struct ipc_credentials *ret);

// Who may connect, besides root and this process's own user.
struct ipc_access {
    bool everyone;
    gid_t group; // members may connect; IPC_GROUP_NONE: none
};

bool ipc_socket_allows(int fd, const struct ipc_access *access,
                       const struct ipc_credentials *credentials);

// Fills `ret_fds` with at most `n` listening sockets named `name` that the service manager passed
// (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES). The caller owns them. Returns their number, or -EINVAL
// with text if one of them is not a listening stream socket.
int ipc_socket_activated(const char *name, int *ret_fds, size_t n, struct err *err);
