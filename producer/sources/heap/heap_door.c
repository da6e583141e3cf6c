// SPDX-License-Identifier: Apache-2.0
//
// A program that finds no socket continues without a wait and wakes nobody. So the socket exists
// only while a recording wants programs.
#include "producer/sources/heap/heap_door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"

int heap_door_init(struct heap_door *door, struct loop *loop, const struct log *log,
                   const char *name, const char *suffix, bool is_private)
{
    *door =
        (struct heap_door){.loop = loop, .log = log, .is_private = is_private, .accepter.fd = -1};
    if (name && asprintf(&door->name, "%s%s", name, suffix) < 0) {
        door->name = NULL;
        return -ENOMEM;
    }
    return 0;
}

static void program_comes(void *userdata, int passed_fd)
{
    struct heap_door *door = userdata;
    int fd CLEANUP(close_fdp) = passed_fd;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    bool taken = false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0 ||
        (peer.uid != geteuid() && geteuid() != 0))
        return;
    vec_foreach(&door->guests, guest)
        taken |= guest->asks(guest->userdata, peer.pid, peer.uid, fd, taken);
}

static void make_folder(const char *path)
{
    char *folder = strdup(path), *end = folder ? strrchr(folder, '/') : NULL;
    if (end && end != folder && *path != '@') {
        *end = 0;
        mkdir(folder, 0755);
    }
    free(folder);
}

static void close_socket(struct heap_door *door)
{
    if (door->accepter.fd >= 0)
        unix_socket_remove(door->name);
    accepter_close(&door->accepter);
}

static int open_socket(struct heap_door *door, struct err *err)
{
    make_folder(door->name);
    int r =
        unix_socket_listen(door->name, SOCK_SEQPACKET, 0666, UNIX_GROUP_NONE, &door->accepter.fd);
    if (r == 0)
        r = accepter_begin(&door->accepter, door->loop, program_comes, door);
    if (r == 0)
        return 0;
    close_socket(door);
    if (door->is_private)
        return err_errno(err, r, "socket \"%s\"", door->name);
    if (r == -EADDRINUSE)
        log_warning(door->log,
                    "linux.heap: preloaded programs ask another recorder (%s): those that start "
                    "now are found a little later",
                    door->name);
    else
        log_debug(door->log, "linux.heap: %s: %s", door->name, strerror(-r));
    return 0;
}

int heap_door_join(struct heap_door *door, heap_host_fn asks, void *userdata, struct err *err)
{
    int r = door_guest_vec_push(&door->guests, (struct door_guest){asks, userdata});
    if (r == 0 && door->name && door->accepter.fd < 0)
        r = open_socket(door, err);
    return r;
}

void heap_door_leave(struct heap_door *door, const void *userdata)
{
    for (size_t i = 0; i < door->guests.n; i++)
        if (door->guests.items[i].userdata == userdata) {
            memmove(&door->guests.items[i], &door->guests.items[i + 1],
                    (--door->guests.n - i) * sizeof(door->guests.items[0]));
            break;
        }
    if (door->guests.n == 0)
        close_socket(door);
}

void heap_door_done(struct heap_door *door)
{
    if (!door->loop)
        return;
    close_socket(door);
    door_guest_vec_done(&door->guests);
    free(door->name);
    *door = (struct heap_door){.accepter.fd = -1};
}
