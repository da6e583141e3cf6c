// SPDX-License-Identifier: Apache-2.0
//
// The names follow Perfetto's rules, so that clients and services find each other without
// configuration.
#include "producer/service/ipc/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/ground/run_folder.h"

#define RUN_DIRECTORY    "/run/perfetto/"
#define GROUPS_MAX       65536
#define LISTEN_FDS_START 3
#define LISTEN_FDS_MAX   64

static const char *name_or_default(const char *variable, const char *in_android, const char *in_run,
                                   const char *in_tmp)
{
    const char *name = getenv(variable);
    if (name && *name)
        return name;
#ifdef __ANDROID__
    (void)in_run, (void)in_tmp;
    return in_android;
#else
    (void)in_android;
    return access(RUN_DIRECTORY, X_OK) == 0 ? in_run : in_tmp;
#endif
}

const char *ipc_consumer_socket_name(void)
{
    return name_or_default("PERFETTO_CONSUMER_SOCK_NAME", "/dev/socket/traced_consumer",
                           RUN_DIRECTORY "traced-consumer.sock", "/tmp/perfetto-consumer");
}

const char *ipc_producer_socket_names(void)
{
    return name_or_default("PERFETTO_PRODUCER_SOCK_NAME", "/dev/socket/traced_producer",
                           RUN_DIRECTORY "traced-producer.sock", "/tmp/perfetto-producer");
}

const char *ipc_control_folder(const char *perfetto_variable, bool *ret_only)
{
    const char *folder = getenv(IPC_CONTROL_VARIABLE), *perfetto = getenv(perfetto_variable);
    *ret_only = folder && *folder;
    if (*ret_only)
        return folder;
    return perfetto && *perfetto ? NULL : RUN_FOLDER;
}

// Returns whether a service of this user is trusted. On Android, traced has its own user, and only
// init makes sockets in /dev/socket. Elsewhere the user of the command names a trusted user.
static bool is_trusted(const char *name, uid_t uid)
{
    const char *text = getenv(IPC_SERVER_UID_VARIABLE);
    uint32_t trusted;
#ifdef __ANDROID__
    if (strncmp(name, "/dev/socket/", strlen("/dev/socket/")) == 0)
        return true;
#endif
    (void)name;
    return text && str_parse_u32(text, &trusted) == 0 && uid == trusted;
}

int ipc_socket_check_owner(int fd, const char *name, struct err *err)
{
    struct ipc_credentials credentials;
    int r = ipc_socket_credentials(fd, &credentials);
    if (r < 0)
        return err_errno(err, r, "socket '%s'", name);
    if (credentials.uid == 0 || credentials.uid == geteuid() || is_trusted(name, credentials.uid))
        return 0;
    err_set(err, -EPERM,
            "socket '%s': user %u serves it, neither root nor the user of this command", name,
            credentials.uid);
    return err_hint(
        err, -EPERM,
        "if you trust this user to see and answer your requests, set " IPC_SERVER_UID_VARIABLE
        "=%u",
        credentials.uid);
}

void ipc_socket_make_directory(void)
{
    if (!getenv("PERFETTO_CONSUMER_SOCK_NAME") || !getenv("PERFETTO_PRODUCER_SOCK_NAME"))
        mkdir(RUN_DIRECTORY, 0755);
}

bool ipc_socket_list_get(const char *names, size_t index, char *ret, size_t ret_size)
{
    for (;;) {
        size_t size = strcspn(names, ",");
        if (size && index-- == 0) {
            if (size >= ret_size)
                return false;
            memcpy(ret, names, size);
            ret[size] = '\0';
            return true;
        }
        if (!names[size])
            return false;
        names += size + 1;
    }
}

static int check_name(const char *name, struct err *err)
{
    struct sockaddr_un address;
    socklen_t size;
    if (unix_socket_address(name, &address, &size) < 0)
        return err_set(err, -EINVAL, "socket '%s': a name has 1 to %zu characters", name,
                       sizeof(address.sun_path) - 1);
    if (*name != '@' && strchr(name, ':') && !strchr(name, '/'))
        return err_set(err, -EINVAL, "socket '%s': only Unix sockets are supported", name);
    return 0;
}

int ipc_socket_listen(const char *name, mode_t mode, gid_t group, int *ret_fd, struct err *err)
{
    int r = check_name(name, err);
    if (r < 0)
        return r;
    r = unix_socket_listen(name, SOCK_STREAM, mode, group, ret_fd);
    if (r == UNIX_SOCKET_E_NO_GROUP) {
        err_set(err, r, "socket '%s': it cannot be given to group %u: its owner alone may connect",
                name, (unsigned)group);
        err_hint(err, r,
                 "run the daemon with this group or with CAP_SETGID; under systemd, SocketGroup= "
                 "in mmtrace.socket gives the socket to the group");
        return r;
    }
    if (r == -EADDRINUSE && *name != '@') {
        err_set(err, r, "socket '%s': another service listens there", name);
        return err_hint(err, r,
                        "stop it, leave those sockets to it with --no-perfetto-sockets, or set "
                        "PERFETTO_CONSUMER_SOCK_NAME and PERFETTO_PRODUCER_SOCK_NAME");
    }
    return r < 0 ? err_errno(err, r, "socket '%s': cannot listen", name) : 0;
}

int ipc_socket_wait(int fd, short events, nsec_t deadline)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    struct timespec left = {0};
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (deadline > now)
        left = nsec_to_timespec(deadline - now);
    int r = ppoll(&poll_fd, 1, deadline == NSEC_MAX ? NULL : &left, NULL);
    if (r < 0)
        return -errno;
    return r == 0 ? -ETIMEDOUT : 0;
}

// Connects, with retries if the backlog is full: the kernel does not report new room in the
// backlog.
static int connect_until(int fd, const struct sockaddr_un *address, socklen_t size, nsec_t deadline)
{
    while (connect(fd, (const struct sockaddr *)address, size) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (nsec_now(CLOCK_MONOTONIC) >= deadline)
            return -ETIMEDOUT;
        struct timespec pause = nsec_to_timespec(10 * NSEC_PER_MSEC);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int ipc_socket_connect(const char *name, nsec_t timeout, int *ret_fd, struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    struct sockaddr_un address;
    socklen_t size;
    int r = check_name(name, err);
    if (r < 0)
        return r;
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + timeout;
    unix_socket_address(name, &address, &size);
    r = unix_socket_new(SOCK_STREAM, &fd);
    if (r == 0)
        r = connect_until(fd, &address, size, deadline);
    if (r < 0)
        return err_errno(err, r, "socket '%s': cannot connect", name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

int64_t ipc_socket_receive(int fd, void *bytes, size_t size, int *ret_fd)
{
    int64_t received;
    if (!ret_fd) {
        received = recv(fd, bytes, size, MSG_DONTWAIT);
        return received >= 0 ? received : errno == EINTR ? -EAGAIN : -errno;
    }
    received = unix_socket_receive(fd, bytes, size, MSG_DONTWAIT, ret_fd);
    return received == -EINTR ? -EAGAIN : received;
}

int ipc_socket_credentials(int fd, struct ipc_credentials *ret)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -errno;
    *ret = (struct ipc_credentials){
        .pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
    struct requester *requester = &ret->requester;
    requester->is_limited = credentials.uid != 0 && credentials.uid != geteuid();
    requester->uid = credentials.uid;
    requester->gid = credentials.gid;
    // A user with more groups than fit counts as without groups: the recording shows less, never
    // more.
    size = sizeof(requester->groups);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, requester->groups, &size) == 0)
        requester->n_groups = size / sizeof(gid_t);
    return 0;
}

static bool peer_is_in(int fd, gid_t group)
{
    socklen_t size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0 || errno != ERANGE ||
        size > GROUPS_MAX * sizeof(gid_t))
        return false;
    CLEANUP(freep) gid_t *groups = malloc(size);
    if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
        return false;
    for (size_t i = 0; i < size / sizeof(gid_t); i++) {
        if (groups[i] == group)
            return true;
    }
    return false;
}

bool ipc_socket_allows(int fd, const struct ipc_access *access,
                       const struct ipc_credentials *credentials)
{
    if (access->everyone || credentials->uid == 0 || credentials->uid == geteuid())
        return true;
    if (access->group == IPC_GROUP_NONE)
        return false;
    return credentials->gid == access->group || peer_is_in(fd, access->group);
}

static bool is_listening_stream(int fd)
{
    int type = 0, listening = 0;
    struct sockaddr_un address;
    socklen_t size = sizeof(int), address_size = sizeof(address);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_size) < 0)
        return false;
    return type == SOCK_STREAM && listening && address.sun_family == AF_UNIX;
}

static int adopt_activated(int fd, const char *name, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || !is_listening_stream(fd))
        return err_set(err, -EINVAL,
                       "descriptor %d ('%s') of LISTEN_FDS is not a listening Unix stream socket",
                       fd, name);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return 0;
}

int ipc_socket_activated(const char *name, int *ret_fds, size_t n, struct err *err)
{
    const char *pid_text = getenv("LISTEN_PID"), *fds_text = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    uint32_t pid, n_fds;
    if (!pid_text || !fds_text || !names || str_parse_u32(pid_text, &pid) < 0 ||
        str_parse_u32(fds_text, &n_fds) < 0 || pid != (uint32_t)getpid())
        return 0;
    size_t found = 0, wanted = strlen(name);
    for (uint32_t i = 0; i < n_fds && i < LISTEN_FDS_MAX && found < n; i++) {
        size_t size = strcspn(names, ":");
        if (size == wanted && memcmp(names, name, size) == 0) {
            int r = adopt_activated(LISTEN_FDS_START + (int)i, name, err);
            if (r < 0)
                return r;
            ret_fds[found++] = LISTEN_FDS_START + (int)i;
        }
        names += names[size] ? size + 1 : size;
    }
    return (int)found;
}
