// SPDX-License-Identifier: Apache-2.0
//
// If descriptors are short, a client cannot be accepted and still waits, and would wake the loop
// again at once. Therefore the loop ignores the socket for ACCEPTER_REST, then tries again. The
// loop also ignores the socket while the owner takes no connection, and after `most` connections.
#include "producer/ground/accepter.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"

// Counts a connection. Returns true if the connection must wait, because a limit is reached.
static bool has_enough(struct accepter *accepter)
{
    if (accepter->most == 0)
        return false;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    if (now >= accepter->since + ACCEPTER_REST) {
        accepter->since = now;
        accepter->n = accepter->n_refused = 0;
    }
    if (accepter->n >= accepter->most ||
        (accepter->most_refused && accepter->n_refused >= accepter->most_refused))
        return true;
    accepter->n++;
    return false;
}

void accepter_refuses(struct accepter *accepter)
{
    accepter->n -= accepter->n > 0;
    accepter->n_refused++;
}

static void client_comes(void *userdata)
{
    struct accepter *accepter = userdata;
    bool is_full =
        (accepter->is_full && accepter->is_full(accepter->userdata)) || has_enough(accepter);
    int fd = is_full ? -1 : accept4(accepter->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        accepter->comes(accepter->userdata, fd);
    else if ((is_full || unix_socket_lacks(-errno)) && loop_set_io(accepter->io, 0) == 0)
        loop_set_timer(accepter->rest, nsec_now(CLOCK_BOOTTIME) + ACCEPTER_REST, 0);
}

static void rest_over(void *userdata)
{
    loop_set_io(((struct accepter *)userdata)->io, EPOLLIN);
}

int accepter_begin(struct accepter *accepter, struct loop *loop,
                   void (*comes)(void *userdata, int fd), void *userdata)
{
    *accepter = (struct accepter){accepter->fd,
                                  loop,
                                  .comes = comes,
                                  .userdata = userdata,
                                  .is_full = accepter->is_full,
                                  .most = accepter->most,
                                  .most_refused = accepter->most_refused};
    int r = loop_add_timer(loop, NSEC_MAX, 0, rest_over, accepter, &accepter->rest);
    return r < 0 ? r
                 : loop_add_io(loop, accepter->fd, EPOLLIN, client_comes, accepter, &accepter->io);
}

int accepter_leave(struct accepter *accepter)
{
    accepter->io = loop_remove_io(accepter->io);
    accepter->rest = loop_remove_timer(accepter->rest);
    return steal_fd(&accepter->fd);
}

void accepter_close(struct accepter *accepter)
{
    close_fd(accepter_leave(accepter));
}
