// SPDX-License-Identifier: Apache-2.0
//
// A connecting process is checked by its pid. The socket is closed here before the helper releases
// its folder, so that the helper has the last reference to another user's mount.
#include "producer/sources/heap/summons.h"

#include <sys/socket.h>

#include "common/cleanup.h"

static void somebody_comes(void *userdata, int fd)
{
    struct summons *summons = userdata;
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid == summons->place.asked.pid)
        summons->comes(summons->userdata, fd);
    else
        close_fd(fd);
}

int summons_wait(struct summons *summons, struct loop *loop, void (*comes)(void *userdata, int fd),
                 void *userdata)
{
    summons->comes = comes;
    summons->userdata = userdata;
    return accepter_begin(&summons->accepter, loop, somebody_comes, summons);
}

static void closed(void *userdata, int result, const void *answer, size_t size, int fd)
{
    (void)userdata, (void)result, (void)answer, (void)size;
    close_fd(fd);
}

void summons_close(struct summons *summons)
{
    if (summons->accepter.fd < 0)
        return;
    accepter_close(&summons->accepter);
    struct foreign_ask ask = {
        .job = FOREIGN_SUMMONS_CLOSE,
        .payer = summons->payer,
        .bytes = &summons->place,
        .size = sizeof(summons->place),
        .fd = -1,
    };
    foreign_helper_ask(summons->helper, &ask, closed, NULL, NULL, NULL);
}
