// SPDX-License-Identifier: Apache-2.0
//
// The names follow Perfetto's rules, so that both sides find each other without configuration. A
// path is taken from whoever left it behind only after nobody answered there: two daemons must not
// steal each other's clients. Modes are set before listen(), while nobody can connect yet.
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

#define RUN_DIRECTORY      "/run/perfetto/"
#define PASSED_FDS_MAX     8 // looked at in one message; the kernel drops the rest
#define GROUPS_MAX         65536
#define LISTEN_FDS_START   3
#define LISTEN_FDS_MAX     64
#define LISTEN_BACKLOG_MAX 128

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

static int make_address(const char *name, struct sockaddr_un *ret, socklen_t *ret_size,
                        struct err *err)
{
    size_t size = strlen(name);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!size || size >= sizeof(ret->sun_path))
        return err_set(err, -EINVAL, "socket '%s': a name has 1 to %zu characters", name,
                       sizeof(ret->sun_path) - 1);
    if (*name != '@' && strchr(name, ':') && !strchr(name, '/'))
        return err_set(err, -EINVAL, "socket '%s': only Unix sockets are supported", name);
    memcpy(ret->sun_path, name, size);
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
    if (*name == '@') {
        ret->sun_path[0] = '\0';
        (*ret_size)--;
    }
    return 0;
}

static int make_socket(int *ret_fd)
{
    *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *ret_fd < 0 ? -errno : 0;
}

// Removes the path unless somebody listens there, or it is no socket.
static int remove_left_over(const char *name, const struct sockaddr_un *address, socklen_t size)
{
    CLEANUP(close_fdp) int fd = -1;
    struct stat status;
    if (lstat(name, &status) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode))
        return -EEXIST;
    int r = make_socket(&fd);
    if (r < 0)
        return r;
    if (connect(fd, (const struct sockaddr *)address, size) == 0 || errno == EAGAIN)
        return -EADDRINUSE;
    return unlink(name) < 0 && errno != ENOENT ? -errno : 0;
}

static int set_owner(const char *name, mode_t mode, gid_t group)
{
    if (group != IPC_GROUP_NONE && chown(name, (uid_t)-1, group) < 0)
        return -errno;
    return chmod(name, mode) < 0 ? -errno : 0;
}

int ipc_socket_listen(const char *name, mode_t mode, gid_t group, int *ret_fd, struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    struct sockaddr_un address;
    socklen_t size;
    int r = make_address(name, &address, &size, err);
    if (r < 0)
        return r;
    bool is_path = *name != '@';
    r = is_path ? remove_left_over(name, &address, size) : 0;
    if (r == -EADDRINUSE) {
        err_set(err, r, "socket '%s': another service listens there", name);
        return err_hint(err, r,
                        "stop it, or set PERFETTO_CONSUMER_SOCK_NAME and "
                        "PERFETTO_PRODUCER_SOCK_NAME");
    }
    if (r == 0)
        r = make_socket(&fd);
    if (r == 0 && bind(fd, (const struct sockaddr *)&address, size) < 0)
        r = -errno;
    if (r == 0 && is_path)
        r = set_owner(name, mode, group);
    if (r == 0 && listen(fd, LISTEN_BACKLOG_MAX) < 0)
        r = -errno;
    if (r < 0)
        return err_errno(err, r, "socket '%s': cannot listen", name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

void ipc_socket_remove(const char *name)
{
    struct stat status;
    if (*name != '@' && lstat(name, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(name);
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

// A full backlog is the one thing that a connection waits for; the kernel does not tell when there
// is room again.
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
    int r = make_address(name, &address, &size, err);
    if (r < 0)
        return r;
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + timeout;
    r = make_socket(&fd);
    if (r == 0)
        r = connect_until(fd, &address, size, deadline);
    if (r < 0)
        return err_errno(err, r, "socket '%s': cannot connect", name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static void take_fds(struct msghdr *message, int *ret_fd)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (*ret_fd < 0)
                *ret_fd = fd;
            else
                close_fd(fd);
        }
    }
}

int64_t ipc_socket_receive(int fd, void *bytes, size_t size, int *ret_fd)
{
    struct iovec where = {.iov_base = bytes, .iov_len = size};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(PASSED_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &where,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    *ret_fd = -1;
    ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    take_fds(&message, ret_fd);
    return received;
}

int ipc_socket_credentials(int fd, struct ipc_credentials *ret)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -errno;
    *ret = (struct ipc_credentials){credentials.pid, credentials.uid, credentials.gid};
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
                       "descriptor %d ('%s') of LISTEN_FDS is no listening Unix stream socket", fd,
                       name);
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
