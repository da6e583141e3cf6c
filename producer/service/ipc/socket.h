// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets where Perfetto has them. A name is a path, or an abstract name behind `@`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/unix_socket.h"
#include "producer/sources/requester.h"

// From PERFETTO_CONSUMER_SOCK_NAME and PERFETTO_PRODUCER_SOCK_NAME, or in /run/perfetto where that
// directory is, or in /tmp (Android: in /dev/socket). The producer's can be several, separated by
// commas. Borrowed from the environment, or constant.
const char *ipc_consumer_socket_name(void);
const char *ipc_producer_socket_names(void);

// Sockets of our own, beside Perfetto's, so that a daemon can be reached where traced holds those:
// "consumer.sock" and "producer.sock" in the daemon's run folder. Only root can make files there.
#define IPC_CONTROL_CONSUMER "consumer.sock"
#define IPC_CONTROL_PRODUCER "producer.sock"
#define IPC_CONTROL_VARIABLE "MMTRACE_SOCKETS"

// The folder whose control sockets a client tries. *ret_only: nothing else is to be tried. NULL:
// no folder, since the variable for Perfetto's socket says where the service is. A folder that
// MMTRACE_SOCKETS names comes first.
const char *ipc_control_folder(const char *perfetto_variable, bool *ret_only);

// A further user who may serve, by number.
#define IPC_SERVER_UID_VARIABLE "MMTRACE_SERVER_UID"

// 0, or -EPERM with text: the process behind the connected socket `name` is neither root's nor of
// this process's user (nor of the user in MMTRACE_SERVER_UID), so somebody else has taken the name.
// It holds for every name, from wherever the name comes.
int ipc_socket_check_owner(int fd, const char *name, struct err *err);

// For a daemon before it listens: makes /run/perfetto if that is where the default names belong and
// it may. Errors show when it listens.
void ipc_socket_make_directory(void);

// Copies name number `index` of a list with commas. False: there is none, or it is too long.
bool ipc_socket_list_get(const char *names, size_t index, char *ret, size_t ret_size);

#define IPC_GROUP_NONE UNIX_GROUP_NONE

// A listening socket, non-blocking. One that is left over from a dead process is replaced; with a
// live one it is -EADDRINUSE. `mode` and `group` (IPC_GROUP_NONE: as it comes) are of the path.
// UNIX_SOCKET_E_NO_GROUP: it listens, for the path's owner alone; `err` says why.
int ipc_socket_listen(const char *name, mode_t mode, gid_t group, int *ret_fd, struct err *err);

// Non-blocking when connected. -ECONNREFUSED, -ENOENT: nobody is there.
int ipc_socket_connect(const char *name, nsec_t timeout, int *ret_fd, struct err *err);

// Waits for POLLIN or POLLOUT until `deadline` (CLOCK_MONOTONIC; NSEC_MAX: for ever). 0,
// -ETIMEDOUT, -EINTR, or another negative errno.
int ipc_socket_wait(int fd, short events, nsec_t deadline);

// Receives without waiting. Bytes, 0 at the end, or a negative errno. A descriptor that came along
// is in *ret_fd (owned, close-on-exec), else -1; further ones are closed. `ret_fd` of NULL: none is
// received, the kernel drops those that come.
int64_t ipc_socket_receive(int fd, void *bytes, size_t size, int *ret_fd);

struct ipc_credentials {
    pid_t pid;
    uid_t uid;
    gid_t gid;
    struct requester requester; // the same user, with all groups; has no limits where trusted
};

int ipc_socket_credentials(int fd, struct ipc_credentials *ret);

// Who may connect besides root and this process's own user.
struct ipc_access {
    bool everyone;
    gid_t group; // its members; IPC_GROUP_NONE: nobody
};

bool ipc_socket_allows(int fd, const struct ipc_access *access,
                       const struct ipc_credentials *credentials);

// Listening sockets that the service manager handed over (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES).
// Fills at most `n` with those called `name`, and returns how many; -EINVAL with text: one of them
// is no listening stream socket. They are the caller's.
int ipc_socket_activated(const char *name, int *ret_fds, size_t n, struct err *err);
