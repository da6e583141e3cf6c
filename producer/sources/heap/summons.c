// SPDX-License-Identifier: Apache-2.0
//
// A connecting process is checked by its pid. The socket is closed here before the helper releases
// its folder, so that the helper has the last reference to another user's mount.
#include "producer/sources/heap/summons.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/cleanup.h"

int summons_accept(const struct summons *summons)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    int fd = accept4(summons->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid == summons->place.asked.pid)
        return fd;
    close_fd(fd);
    return -EPERM;
}

static void closed(void *userdata, int result, const void *answer, size_t size, int fd)
{
    (void)userdata, (void)result, (void)answer, (void)size;
    close_fd(fd);
}

void summons_close(struct summons *summons)
{
    if (summons->listen_fd < 0)
        return;
    summons->listen_fd = close_fd(summons->listen_fd);
    struct foreign_ask ask = {
        .job = FOREIGN_SUMMONS_CLOSE,
        .payer = summons->payer,
        .bytes = &summons->place,
        .size = sizeof(summons->place),
        .fd = -1,
    };
    foreign_helper_ask(summons->helper, &ask, closed, NULL, NULL, NULL);
}
