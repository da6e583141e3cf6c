// SPDX-License-Identifier: Apache-2.0
//
// The protocol is one text datagram to a Unix socket, stable and documented in sd_notify(3). A
// library for it would cost memory in every process of the daemon.
#include "producer/service/service_manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/unix_socket.h"

int service_manager_tell(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t length;
    if (!name || !*name)
        return 0;
    if ((*name != '/' && *name != '@') || unix_socket_address(name, &address, &length) < 0)
        return -EINVAL;
    CLEANUP(close_fdp) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    ssize_t n = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    return n < 0 ? -errno : 0;
}

nsec_t service_manager_watchdog(void)
{
    const char *usec_text = getenv("WATCHDOG_USEC"), *pid_text = getenv("WATCHDOG_PID");
    uint64_t usec, pid;
    if (!usec_text || str_parse_u64(usec_text, &usec) < 0 ||
        usec > (uint64_t)(NSEC_MAX / NSEC_PER_USEC))
        return 0;
    if (pid_text && (str_parse_u64(pid_text, &pid) < 0 || pid != (uint64_t)getpid()))
        return 0;
    return (nsec_t)usec * NSEC_PER_USEC;
}
