// SPDX-License-Identifier: Apache-2.0
//
// Uses system calls only, because one of the callers is a signal handler.
#include "producer/heap/recorder.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/unix_socket.h"

#define ANSWER_SECONDS 2
#define INTERRUPTS_MAX 100
#define RING_BYTES_MAX (UINT64_C(1) << 30)

int recorder_connect(const char *name)
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

int recorder_receive(int socket_fd)
{
    char byte;
    int fd;
    int64_t n = -EINTR;
    for (int i = 0; i < INTERRUPTS_MAX && n == -EINTR; i++) // the program's own signals interrupt
        n = unix_socket_receive(socket_fd, &byte, sizeof(byte), 0, &fd);
    if (n != 1)
        return -ECONNREFUSED;
    return fd < 0 ? -EPROTO : fd;
}

int recorder_check(int fd, struct heap_header *ret)
{
    struct heap_header header;
    struct stat st;
    if (fstat(fd, &st) < 0 || pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return -EINVAL;
    if (header.magic != HEAP_ABI_MAGIC || header.version != HEAP_ABI_VERSION ||
        header.ring_bytes < HEAP_HEADER_BYTES || header.ring_bytes > RING_BYTES_MAX ||
        (header.ring_bytes & (header.ring_bytes - 1)) != 0 ||
        header.table_shift > HEAP_TABLE_SHIFT_MAX ||
        (uint64_t)st.st_size != HEAP_MEMORY_BYTES(header.ring_bytes))
        return -EPROTO;
    *ret = header;
    return 0;
}
