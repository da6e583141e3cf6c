// SPDX-License-Identifier: Apache-2.0
//
// Ways in. A preloaded program asks its recorder before anything else runs in it; one that was
// attached to is told by mmheap_attach(). Neither leaves a descriptor or a thread behind, and a
// failure leaves the program as it was.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "producer/agents/heap/client.h"

#define ANSWER_SECONDS 2

static int connect_recorder(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(name);
    if (size == 0 || size >= sizeof(address.sun_path))
        return -EINVAL;
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval timeout = {.tv_sec = ANSWER_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

static int receive_ring(int socket_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) != 1)
        return -ECONNREFUSED;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int)))
        return -EPROTO;
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

static const char *socket_name(char **environment)
{
    size_t size = sizeof(HEAP_SOCKET_VARIABLE) - 1;
    for (; environment && *environment && getauxval(AT_SECURE) == 0; environment++)
        if (strncmp(*environment, HEAP_SOCKET_VARIABLE, size) == 0 && (*environment)[size] == '=')
            return *environment + size + 1;
    return NULL;
}

// The first of all constructors, also of the C library's own: getenv() finds nothing yet.
__attribute__((constructor)) static void begin_preloaded(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    const char *name = socket_name(environment);
    int saved = errno;
    int socket_fd = name ? connect_recorder(name) : -1;
    if (socket_fd >= 0) {
        int fd = receive_ring(socket_fd);
        if (fd >= 0) {
            client_start(fd);
            close(fd);
        }
        close(socket_fd);
    }
    errno = saved;
}

// Begins a profile with the ring behind `fd`, which is closed. 0 or a negative errno.
__attribute__((visibility("default"))) int mmheap_attach(int fd);
int mmheap_attach(int fd)
{
    int r = client_start(fd);
    close(fd);
    return r;
}

// Ends the profile, if there is one, before the next sample would.
__attribute__((visibility("default"))) int mmheap_detach(void);
int mmheap_detach(void)
{
    client_stop();
    return 0;
}
