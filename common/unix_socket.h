// SPDX-License-Identifier: Apache-2.0
//
// Unix sockets: names (a path, or an abstract name after `@`), listening sockets, and messages
// that carry a descriptor. Allocates nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define UNIX_GROUP_NONE        ((gid_t)-1)
#define UNIX_SOCKET_E_NO_GROUP 1

// Makes the address of `name`. Returns 0, or -EINVAL if `name` is not a valid name.
int unix_socket_address(const char *name, struct sockaddr_un *ret, socklen_t *ret_size);

// Makes a close-on-exec, non-blocking socket. `type` is SOCK_STREAM or SOCK_SEQPACKET. Returns 0 or
// a negative errno.
int unix_socket_new(int type, int *ret_fd);

// Makes a listening socket. A socket of a dead process is replaced. `mode` and `group` apply to the
// path; UNIX_GROUP_NONE keeps the group that the kernel gives. The kernel refuses descriptors that
// peers pass, if it can (unix_socket_refuse_fds()). Returns 0 or a negative errno:
// -EADDRINUSE if a live process listens there. Returns UNIX_SOCKET_E_NO_GROUP if this process may
// not give the path to `group`: the socket listens, and only its owner has rights.
int unix_socket_listen(const char *name, int type, mode_t mode, gid_t group, int *ret_fd);

// Returns whether `r`, a negative errno of accept(), means that descriptors or memory are short.
// The client then still waits, and would immediately wake an event loop again.
bool unix_socket_lacks(int r);

// Sets whether the kernel refuses descriptors that peers pass to this socket, and to the sockets
// that a listening socket accepts. Returns 0, or -ENOPROTOOPT before Linux 6.16.
int unix_socket_refuse_fds(int fd, bool refuse);
bool unix_socket_refuses_fds(int fd);

// Removes the path that unix_socket_listen() made.
void unix_socket_remove(const char *name);

// The control buffer for the descriptors of one message.
#define UNIX_PASSED_MAX 8 // the kernel drops the rest
union unix_passing {
    struct cmsghdr header;
    char space[CMSG_SPACE(UNIX_PASSED_MAX * sizeof(int))];
};

// Attaches the descriptor `fd` (borrowed; -1: none) to a message before it is sent.
void unix_socket_pass(struct msghdr *message, union unix_passing *room, int fd);

// Returns the first descriptor of a received message (owned), or -1. Further descriptors are
// closed.
int unix_socket_passed(struct msghdr *message);

// Sends one message with the descriptor `passed_fd` (borrowed; -1: none). Returns 0 or a negative
// errno.
int unix_socket_send(int fd, const void *bytes, size_t size, int passed_fd, int flags);

// Receives one message. Returns the number of bytes, 0 at the end, or a negative errno. *ret_fd is
// the descriptor of the message (owned, close-on-exec), or -1 if the message has none. Further
// descriptors are closed.
int64_t unix_socket_receive(int fd, void *bytes, size_t size, int flags, int *ret_fd);
