// SPDX-License-Identifier: Apache-2.0
//
// The folder is the process's, in mounts of its making: whatever has the socket's name a moment
// later may be anything. So nothing is done to that name. The socket has its owner and mode before
// it has a name: it is made with the process's ids for file systems, which may do there what the
// process may do. Its mode is that of the socket's descriptor, without the mask.
//
// The folder is held until the recorder has closed the socket, so that the last hold on a mount of
// somebody else's is never the recorder's.
#include "producer/sources/heap/summons_job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"
#include "common/vec.h"
#include "producer/foreign/ids.h"
#include "producer/foreign/path.h"

#define BACKLOG 4

struct place {
    struct summons_place at;
    int folder_fd; // owned
    uid_t uid;
    gid_t gid;
};
VEC_DEFINE(place_vec, struct place);

static struct place_vec *places_of(struct foreign_worker *worker)
{
    if (!*worker->state)
        *worker->state = calloc(1, sizeof(struct place_vec));
    return *worker->state;
}

// In place->folder_fd, with this process's ids. *ret_fd is owned.
static int bind_there(const struct place *place, int *ret_fd)
{
    char path[64];
    struct sockaddr_un address;
    socklen_t size;
    int fd CLEANUP(close_fdp) = -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", place->folder_fd, place->at.name);
    int r = unix_socket_address(path, &address, &size);
    if (r == 0)
        r = unix_socket_new(SOCK_SEQPACKET, &fd);
    if (r == 0 && (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, size) < 0 ||
                   listen(fd, BACKLOG) < 0))
        r = -errno;
    if (r == 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

// As the process would.
static int make_socket(struct place *place, int root_fd, int *ret_fd)
{
    static const struct foreign_want folder = {.type = S_IFDIR};
    struct foreign_ids own;
    bool is_other = place->uid != geteuid() || place->gid != getegid();
    int r = is_other ? foreign_ids_take(place->uid, place->gid, &own) : 0;
    if (r < 0)
        return r;
    place->folder_fd =
        foreign_open(root_fd, place->at.folder + 1, O_PATH | O_DIRECTORY, &folder, NULL);
    r = place->folder_fd < 0 ? place->folder_fd : bind_there(place, ret_fd);
    if (is_other)
        foreign_ids_return(&own);
    if (r < 0)
        place->folder_fd = close_fd(place->folder_fd);
    return r;
}

static int open_first(struct place *place, const struct summons_request *asked, int root_fd,
                      int *ret_fd)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    uint64_t random;
    int r = getrandom(&random, sizeof(random), 0) < 0 ? -errno : -ENOENT;
    for (size_t i = 0; r < 0 && i < HEAP_SUMMONS_N_FOLDERS; i++) {
        struct summons_place *at = &place->at;
        at->number = random - random % HEAP_SUMMONS_N_FOLDERS + i;
        snprintf(at->folder, sizeof(at->folder), "%s", folders[i]);
        snprintf(at->name, sizeof(at->name), HEAP_SUMMONS_PREFIX "%016" PRIx64 "%s", at->number,
                 asked->suffix);
        r = make_socket(place, root_fd, ret_fd);
    }
    return r;
}

void summons_open_job(struct foreign_worker *worker, struct foreign_request *request,
                      struct foreign_answer *ret)
{
    const struct summons_request *asked = request->bytes;
    struct place_vec *places = places_of(worker);
    struct place place = {.folder_fd = -1, .uid = asked->uid, .gid = asked->gid};
    umask(0077);
    int root_fd CLEANUP(close_fdp) = foreign_root(worker->proc, asked->pid);
    ret->result = root_fd < 0 ? root_fd
                  : places    ? place_vec_reserve(places, places->n + 1)
                              : -ENOMEM;
    if (ret->result == 0)
        ret->result = open_first(&place, asked, root_fd, &ret->fd);
    if (ret->result < 0)
        return;
    place_vec_push(places, place);
    memcpy(ret->bytes, &place.at, sizeof(place.at));
    ret->size = sizeof(place.at);
}

static void remove_place(struct place *place)
{
    struct foreign_ids own;
    bool is_other = place->uid != geteuid() || place->gid != getegid();
    if (!is_other || foreign_ids_take(place->uid, place->gid, &own) == 0) {
        unlinkat(place->folder_fd, place->at.name, 0);
        if (is_other)
            foreign_ids_return(&own);
    }
    place->folder_fd = close_fd(place->folder_fd);
}

void summons_close_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret)
{
    const uint64_t *number = request->bytes;
    struct place_vec *places = places_of(worker);
    for (size_t i = 0; places && i < places->n; i++)
        if (places->items[i].at.number == *number) {
            remove_place(&places->items[i]);
            places->items[i] = places->items[--places->n];
            break;
        }
    ret->result = 0;
}
