// SPDX-License-Identifier: Apache-2.0
//
// These functions use only system calls, because one of the callers is a signal handler.
//
// A program may ask at a name that its recorder has given up: a dormant program connects at its
// next allocation, and a child after fork at its next sample. Another user may have the name by
// then, and could hand out memory that ends the program (a file that shrinks) or stops it (a ring
// that stays full). Therefore the program checks the user of the server, and takes memory only if
// nobody can shrink the memory.
#include "producer/heap/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/nsec.h"
#include "common/unix_socket.h"

#define WAIT_FOR_OWN   (30 * NSEC_PER_SEC) // on a busy machine, too
#define RING_BYTES_MAX (UINT64_C(1) << 30)
#define OVERFLOW_UID   65534 // users without a number in a user namespace
#define SEALS          (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

// The header's fcntl() is fcntl64(), which musl lacks.
static int control(int fd, int command, int value)
{
    return (int)syscall(SYS_fcntl, fd, command, value);
}

// Returns whether root of the machine can lack a uid in this user namespace.
static bool is_in_user_namespace(void)
{
    static const char all[] = "         0          0 4294967295\n";
    char text[sizeof(all)];
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    return n > 0 && ((size_t)n != sizeof(all) - 1 || memcmp(text, all, sizeof(all) - 1) != 0);
}

static bool get_server(int fd, uid_t *ret)
{
    struct ucred server;
    socklen_t size = sizeof(server);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) < 0)
        return false;
    *ret = server.uid;
    return true;
}

// A recorder belongs to root or to the program's own user.
static bool is_of_recorder(int fd)
{
    uid_t uid;
    return get_server(fd, &uid) &&
           (uid == 0 || uid == geteuid() || (uid == OVERFLOW_UID && is_in_user_namespace()));
}

nsec_t recorder_wait_max(const char *name)
{
    return strncmp(name, HEAP_OWN_PREFIX, sizeof(HEAP_OWN_PREFIX) - 1) == 0 ? WAIT_FOR_OWN
                                                                            : RECORDER_WAIT;
}

int recorder_connect(const char *name, bool waits)
{
    struct sockaddr_un address;
    socklen_t size;
    int r = unix_socket_address(name, &address, &size);
    if (r < 0)
        return r;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return -errno;
    struct timeval timeout = {.tv_sec = RECORDER_WAIT / NSEC_PER_SEC};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address, size) < 0 ||
        (!waits && control(fd, F_SETFL, 0) < 0))
        r = -errno;
    else if (is_of_recorder(fd))
        return fd;
    else
        r = -EPERM;
    close(fd);
    return r;
}

static bool is_sealed(int fd)
{
    int seals = control(fd, F_GET_SEALS, 0);
    return seals >= 0 && (seals & SEALS) == SEALS;
}

// Signals of the program interrupt the wait. A second recorder that stops the thread makes the
// kernel begin a wait in recvmsg() anew, but not a wait in poll().
static bool has_answer(int socket_fd, nsec_t wait_max)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + wait_max;
    struct pollfd poll_fd = {.fd = socket_fd, .events = POLLIN};
    int r = -1;
    errno = EINTR;
    for (nsec_t left = wait_max; r < 0 && errno == EINTR && left > 0;
         left = deadline - nsec_now(CLOCK_MONOTONIC))
        r = poll(&poll_fd, 1, (int)(left / NSEC_PER_MSEC));
    return r > 0;
}

int recorder_receive(int socket_fd, nsec_t wait_max)
{
    char byte;
    int fd;
    uid_t uid;
    int64_t n = -ETIMEDOUT;
    if (wait_max > RECORDER_WAIT &&
        (!get_server(socket_fd, &uid) || (uid == OVERFLOW_UID && is_in_user_namespace())))
        wait_max = RECORDER_WAIT; // perhaps a stranger
    if (has_answer(socket_fd, wait_max))
        n = unix_socket_receive(socket_fd, &byte, sizeof(byte), MSG_DONTWAIT, &fd);
    if (n < 0)
        return -ECONNREFUSED;
    if (n == 1 && fd >= 0 && is_sealed(fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return n == 1 ? -EPROTO : -ECONNREFUSED;
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
