// SPDX-License-Identifier: Apache-2.0
//
// An existing path is replaced only if no process answers there: two programs must not steal each
// other's clients. Modes are set before listen(), while no client can connect yet.
//
// Another user may own the folder, and could put another socket in the place of the new socket.
// Therefore bind() makes a socket without any rights (the path takes the mode of the descriptor).
// Then the path is opened. Only a socket without rights gets an owner and a mode, through the
// descriptor.
#include "common/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define LISTEN_BACKLOG_MAX 128
#define SOCKET_PASSRIGHTS  83 // SO_PASSRIGHTS, which older headers lack

int unix_socket_address(const char *name, struct sockaddr_un *ret, socklen_t *ret_size)
{
    size_t size = strlen(name);
    if (size == 0 || size >= sizeof(ret->sun_path))
        return -EINVAL;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, name, size);
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
    if (*name == '@') {
        ret->sun_path[0] = '\0';
        (*ret_size)--;
    }
    return 0;
}

int unix_socket_new(int type, int *ret_fd)
{
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

// Removes the path, unless a process listens there or the path is not a socket.
static int remove_left_over(const char *name, int type, const struct sockaddr_un *address,
                            socklen_t size)
{
    CLEANUP(close_fdp) int fd = -1;
    struct stat status;
    if (lstat(name, &status) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode))
        return -EEXIST;
    int r = unix_socket_new(type, &fd);
    if (r < 0)
        return r;
    if (connect(fd, (const struct sockaddr *)address, size) == 0 || errno == EAGAIN)
        return -EADDRINUSE;
    return unlink(name) < 0 && errno != ENOENT ? -errno : 0;
}

// Opens (O_PATH) the socket that bind() has just made.
static int open_bound(const char *name)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_mode != S_IFSOCK || st.st_nlink != 1 || st.st_uid != geteuid())
        return -EPERM;
    return steal_fd(&fd);
}

// Gives the new socket its group and mode. Returns UNIX_SOCKET_E_NO_GROUP if only the path's owner
// has rights.
static int set_owner(const char *name, mode_t mode, gid_t group)
{
    int r = 0;
    char self[32];
    CLEANUP(close_fdp) int fd = open_bound(name);
    if (fd < 0)
        return fd;
    if (group != UNIX_GROUP_NONE) {
        // A file's owner may give the file to a group of the owner. Therefore CAP_SETGID can
        // replace CAP_CHOWN.
        int own = setfsgid(group);
        r = fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) < 0 ? -errno : 0;
        setfsgid((gid_t)own);
        if (r < 0 && r != -EPERM)
            return r;
        if (r < 0) {
            mode &= 0700;
            r = UNIX_SOCKET_E_NO_GROUP;
        }
    }
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return chmod(self, mode) < 0 ? -errno : r;
}

int unix_socket_listen(const char *name, int type, mode_t mode, gid_t group, int *ret_fd)
{
    CLEANUP(close_fdp) int fd = -1;
    struct sockaddr_un address;
    socklen_t size;
    int r = unix_socket_address(name, &address, &size);
    bool is_path = *name != '@';
    if (r == 0 && is_path)
        r = remove_left_over(name, type, &address, size);
    if (r == 0)
        r = unix_socket_new(type, &fd);
    if (r == 0 && is_path && fchmod(fd, 0) < 0)
        r = -errno;
    if (r == 0 && bind(fd, (const struct sockaddr *)&address, size) < 0)
        r = -errno;
    if (r == 0 && is_path)
        r = set_owner(name, mode, group);
    if (r >= 0)
        unix_socket_refuse_fds(fd, true); // accepted sockets inherit this
    if (r >= 0 && listen(fd, LISTEN_BACKLOG_MAX) < 0)
        r = -errno;
    if (r >= 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

bool unix_socket_lacks(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOBUFS;
}

int unix_socket_refuse_fds(int fd, bool refuse)
{
    int passes = !refuse;
    return setsockopt(fd, SOL_SOCKET, SOCKET_PASSRIGHTS, &passes, sizeof(passes)) < 0 ? -errno : 0;
}

bool unix_socket_refuses_fds(int fd)
{
    int passes = 1;
    socklen_t size = sizeof(passes);
    return getsockopt(fd, SOL_SOCKET, SOCKET_PASSRIGHTS, &passes, &size) == 0 && passes == 0;
}

void unix_socket_remove(const char *name)
{
    struct stat status;
    if (*name != '@' && lstat(name, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(name);
}

void unix_socket_pass(struct msghdr *message, union unix_passing *room, int fd)
{
    if (fd < 0)
        return;
    memset(room, 0, sizeof(*room));
    message->msg_control = room;
    message->msg_controllen = CMSG_SPACE(sizeof(int));
    room->header.cmsg_level = SOL_SOCKET;
    room->header.cmsg_type = SCM_RIGHTS;
    room->header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&room->header), &fd, sizeof(fd));
}

int unix_socket_passed(struct msghdr *message)
{
    int first = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (first < 0)
                first = fd;
            else
                close_fd(fd);
        }
    }
    return first;
}

int unix_socket_send(int fd, const void *bytes, size_t size, int passed_fd, int flags)
{
    union unix_passing room;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    unix_socket_pass(&message, &room, passed_fd);
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
    if (sent < 0)
        return -errno;
    return (size_t)sent == size ? 0 : -EMSGSIZE;
}

int64_t unix_socket_receive(int fd, void *bytes, size_t size, int flags, int *ret_fd)
{
    struct iovec where = {.iov_base = bytes, .iov_len = size};
    union unix_passing room;
    struct msghdr message = {
        .msg_iov = &where,
        .msg_iovlen = 1,
        .msg_control = &room,
        .msg_controllen = sizeof(room),
    };
    ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | flags);
    if (received < 0)
        return -errno;
    *ret_fd = unix_socket_passed(&message);
    return received;
}
