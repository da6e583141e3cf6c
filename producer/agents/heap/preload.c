// SPDX-License-Identifier: Apache-2.0
//
// Ways in. A preloaded program asks its recorder before anything else runs in it; one that was
// attached to is told by mmheap_attach(). Neither leaves a descriptor or a thread behind, and a
// failure leaves the program as it was.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/unix_socket.h"
#include "producer/agents/heap/client.h"

#define ANSWER_SECONDS 2

static int connect_recorder(const char *name)
{
    struct sockaddr_un address;
    socklen_t size;
    int r = unix_socket_address(name, &address, &size);
    if (r < 0)
        return r;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval timeout = {.tv_sec = ANSWER_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address, size) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

static int receive_ring(int socket_fd)
{
    char byte;
    int fd;
    int64_t n = unix_socket_receive(socket_fd, &byte, sizeof(byte), 0, &fd);
    if (n != 1)
        return -ECONNREFUSED;
    if (fd < 0)
        return -EPROTO;
    return fd;
}

static const char *socket_name(char **environment)
{
    size_t size = sizeof(HEAP_SOCKET_VARIABLE) - 1;
    for (; environment && *environment && getauxval(AT_SECURE) == 0; environment++)
        if (strncmp(*environment, HEAP_SOCKET_VARIABLE, size) == 0 && (*environment)[size] == '=')
            return *environment + size + 1;
    return getauxval(AT_SECURE) == 0 ? HEAP_SOCKET_FOLDER "/" HEAP_SOCKET_FILE : NULL;
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

// Behind all other destructors, as the constructor comes before all others.
__attribute__((destructor)) static void end_program(void)
{
    client_finish();
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
