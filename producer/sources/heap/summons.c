// SPDX-License-Identifier: Apache-2.0
//
// A connecting process is checked by its pid. The socket is closed here before the helper releases
// its folder, so that the helper has the last reference to another user's mount.
//
// The folder belongs to the process, in mounts that the process may have made: a moment later, the
// socket's name may lead to anything. No later operation follows this name. The socket has its
// owner and mode before it has a name: it is made with the process's file-system ids, which have
// only the process's rights. The name gets the mode of the socket's descriptor, less the bits of
// the umask.
#include "producer/sources/heap/summons.h"

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
#include "producer/foreign/path.h"
#include "producer/ground/ids.h"

#define VISITS_MAX 50 // connections in 100 ms; one is wanted
#define BACKLOG    4

// The helper's part.

struct place {
    struct summons_place at;
    int folder_fd; // owned
};
VEC_DEFINE(place_vec, struct place);

static struct place_vec *places_of(struct foreign_worker *worker)
{
    if (!*worker->state)
        *worker->state = calloc(1, sizeof(struct place_vec));
    umask(0077);
    return *worker->state;
}

// Binds a socket in place->folder_fd, with the ids that the helper has taken. *ret_fd is owned.
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
    if (r == 0)
        unix_socket_refuse_fds(fd, true);
    if (r == 0 && (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, size) < 0 ||
                   listen(fd, BACKLOG) < 0))
        r = -errno;
    if (r == 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

static int open_folder(int root_fd, const char *name)
{
    static const struct foreign_want folder = {.type = S_IFDIR};
    return foreign_open(root_fd, name + 1, O_PATH | O_DIRECTORY, &folder, NULL);
}

// Takes the ids of the process's user, until foreign_ids_return().
static int become(const struct summons_request *asked, struct foreign_ids *ret_own)
{
    *ret_own = (struct foreign_ids){geteuid(), getegid()};
    bool is_own = asked->uid == ret_own->uid && asked->gid == ret_own->gid;
    return is_own ? 0 : foreign_ids_take(asked->uid, asked->gid, ret_own);
}

static int make_socket(struct place *place, int root_fd, int *ret_fd)
{
    struct foreign_ids own;
    int r = become(&place->at.asked, &own);
    if (r < 0)
        return r;
    place->folder_fd = open_folder(root_fd, place->at.folder);
    r = place->folder_fd < 0 ? place->folder_fd : bind_there(place, ret_fd);
    foreign_ids_return(&own);
    if (r < 0)
        place->folder_fd = close_fd(place->folder_fd);
    return r;
}

static int open_first(struct place *place, int root_fd, int *ret_fd)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    struct summons_place *at = &place->at;
    uint64_t random;
    int r = getrandom(&random, sizeof(random), 0) < 0 ? -errno : -ENOENT;
    for (size_t i = 0; r < 0 && i < HEAP_SUMMONS_N_FOLDERS; i++) {
        at->number = random - random % HEAP_SUMMONS_N_FOLDERS + i;
        snprintf(at->folder, sizeof(at->folder), "%s", folders[i]);
        snprintf(at->name, sizeof(at->name), HEAP_SUMMONS_PREFIX "%016" PRIx64 "%s", at->number,
                 at->asked.suffix);
        r = make_socket(place, root_fd, ret_fd);
    }
    return r;
}

int summons_place_open(struct foreign_worker *worker, const struct summons_request *asked,
                       struct summons_place *ret, int *ret_fd)
{
    struct place_vec *places = places_of(worker);
    struct place place = {.at = {.asked = *asked}, .folder_fd = -1};
    int root_fd CLEANUP(close_fdp) = foreign_root(worker->proc, asked->pid);
    if (root_fd < 0)
        return root_fd;
    int r = places ? place_vec_reserve(places, places->n + 1) : -ENOMEM;
    if (r == 0)
        r = open_first(&place, root_fd, ret_fd);
    if (r < 0)
        return r;
    place_vec_push(places, place);
    *ret = place.at;
    return 0;
}

static void remove_place(struct place *place)
{
    struct foreign_ids own;
    if (place->folder_fd >= 0 && become(&place->at.asked, &own) == 0) {
        unlinkat(place->folder_fd, place->at.name, 0);
        foreign_ids_return(&own);
    }
    place->folder_fd = close_fd(place->folder_fd);
}

// Removes a name that an earlier helper made.
static void remove_strange(const struct foreign_worker *worker, const struct summons_place *at)
{
    struct foreign_ids own;
    struct place place = {.at = *at, .folder_fd = -1};
    int root_fd CLEANUP(close_fdp) = foreign_root(worker->proc, at->asked.pid);
    if (root_fd < 0 || become(&at->asked, &own) < 0)
        return;
    place.folder_fd = open_folder(root_fd, at->folder);
    foreign_ids_return(&own);
    remove_place(&place);
}

void summons_close_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret)
{
    const struct summons_place *at = request->bytes;
    struct place_vec *places = places_of(worker);
    ret->result = 0;
    for (size_t i = 0; places && i < places->n; i++)
        if (places->items[i].at.number == at->number) {
            remove_place(&places->items[i]);
            places->items[i] = places->items[--places->n];
            return;
        }
    remove_strange(worker, at);
}

void summons_end(void *state)
{
    struct place_vec *places = state;
    vec_foreach(places, place)
        remove_place(place);
}

// The recorder's part.

void summons_leave(const struct summons *summons, int fd)
{
    foreign_close_socket(foreign_of(summons->helper), fd);
}

static void somebody_comes(void *userdata, int fd)
{
    struct summons *summons = userdata;
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid == summons->place.asked.pid)
        summons->comes(summons->userdata, fd);
    else
        summons_leave(summons, fd);
}

static bool is_full(void *userdata)
{
    const struct summons *summons = userdata;
    return foreign_is_full(foreign_of(summons->helper));
}

int summons_wait(struct summons *summons, struct loop *loop, void (*comes)(void *userdata, int fd),
                 void *userdata)
{
    summons->comes = comes;
    summons->userdata = userdata;
    summons->accepter.is_full = is_full;
    summons->accepter.most = VISITS_MAX;
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
    summons_leave(summons, accepter_leave(&summons->accepter));
    struct foreign_ask ask = {
        .job = FOREIGN_SUMMONS_CLOSE,
        .payer = summons->payer,
        .bytes = &summons->place,
        .size = sizeof(summons->place),
        .fd = -1,
    };
    foreign_helper_ask(summons->helper, &ask, closed, NULL, NULL, NULL);
}
