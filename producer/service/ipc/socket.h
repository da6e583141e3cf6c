// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets with Perfetto's names. A name is a path, or an abstract name after `@`.
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
// else in /run/perfetto if this folder exists, else in /tmp (Android: in /dev/socket). Producer
// sockets may have several names, separated by commas. Borrowed from the environment, or constant.
const char *ipc_consumer_socket_name(void);
const char *ipc_producer_socket_names(void);

// Our own sockets, beside Perfetto's, reach a daemon while traced holds Perfetto's sockets:
// "consumer.sock" and "producer.sock" in the daemon's run folder. Only root can make files there.
#define IPC_CONTROL_CONSUMER "consumer.sock"
#define IPC_CONTROL_PRODUCER "producer.sock"
#define IPC_CONTROL_VARIABLE "MMTRACE_SOCKETS"

// Returns the folder of the control sockets for a client: first the folder in MMTRACE_SOCKETS; then
// NULL if `perfetto_variable` is set, because the variable names the service; then the run folder.
// *ret_only: no other sockets may be tried.
const char *ipc_control_folder(const char *perfetto_variable, bool *ret_only);

// Names the uid of one more user whose service is trusted.
#define IPC_SERVER_UID_VARIABLE "MMTRACE_SERVER_UID"

// Returns 0 if the process behind the connected socket `name` belongs to root, to this process's
// user, or to the user in MMTRACE_SERVER_UID. Otherwise another user has taken the name: returns
// -EPERM with text. The check applies to names from all origins.
int ipc_socket_check_owner(int fd, const char *name, struct err *err);

// Makes /run/perfetto if the default names belong there and this process has the right. A daemon
// calls this function before it listens, and gets the errors when it listens.
void ipc_socket_make_directory(void);

// Copies the name at `index` of a comma-separated list. Returns false if the list is shorter or the
// name is too long.
bool ipc_socket_list_get(const char *names, size_t index, char *ret, size_t ret_size);

#define IPC_GROUP_NONE UNIX_GROUP_NONE

// Makes a listening, non-blocking socket. A socket of a dead process is replaced. `mode` and
// `group` apply to the path; IPC_GROUP_NONE keeps the group that the kernel gives. Returns 0 or a
// negative errno with text: -EADDRINUSE if a live process listens there. Returns
// UNIX_SOCKET_E_NO_GROUP, with the reason in `err`, if only the path's owner can connect.
int ipc_socket_listen(const char *name, mode_t mode, gid_t group, int *ret_fd, struct err *err);

// Connects within `timeout`. The socket is non-blocking. Returns 0 or a negative errno with text:
// -ECONNREFUSED or -ENOENT if nothing listens there.
int ipc_socket_connect(const char *name, nsec_t timeout, int *ret_fd, struct err *err);

// Waits for POLLIN or POLLOUT until `deadline` (CLOCK_MONOTONIC; NSEC_MAX: forever). Returns 0,
// -ETIMEDOUT, -EINTR, or another negative errno.
int ipc_socket_wait(int fd, short events, nsec_t deadline);

// Receives without waiting. Returns the number of bytes, 0 at the end, or a negative errno. *ret_fd
// is the descriptor that came along (owned, close-on-exec), or -1; further descriptors are closed.
// If `ret_fd` is NULL, the kernel drops all descriptors.
int64_t ipc_socket_receive(int fd, void *bytes, size_t size, int *ret_fd);

struct ipc_credentials {
    pid_t pid;
    uid_t uid;
    gid_t gid;
    uint64_t payer;             // whose limits count (payer.h); set by the service alone
    struct requester requester; // user of the peer with all groups; no limits if trusted
};

int ipc_socket_credentials(int fd, struct ipc_credentials *ret);

// The users who may connect, besides root and this process's own user.
struct ipc_access {
    bool everyone;
    gid_t group; // members may connect; IPC_GROUP_NONE: none
};

bool ipc_socket_allows(int fd, const struct ipc_access *access,
                       const struct ipc_credentials *credentials);

// Fills `ret_fds` with at most `n` listening sockets of the name `name` from the service manager
// (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES). The caller owns them. Returns their number, or -EINVAL
// with text if a descriptor is not a listening stream socket.
int ipc_socket_activated(const char *name, int *ret_fds, size_t n, struct err *err);
