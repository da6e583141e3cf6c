// SPDX-License-Identifier: Apache-2.0
//
// Folders are looked up as the process would, so links there lead nowhere else. The folder is the
// process's: what has the socket's name by the time it is given away may be a link to anything, so
// the socket is held first. Who connects is judged by its pid.
#include "producer/sources/heap/summons.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/unix_socket.h"

static int open_folder(const char *proc, int32_t pid, const char *folder)
{
    char root[64];
    snprintf(root, sizeof(root), "%s/%d/root", proc, pid);
    int root_fd CLEANUP(close_fdp) = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root_fd < 0 ? -errno : open_in_root(root_fd, folder + 1, O_PATH | O_DIRECTORY);
}

// For the process alone, whoever it is.
static int hand_over(const struct summons *summons, uid_t uid, gid_t gid)
{
    char path[64];
    struct stat st;
    int fd CLEANUP(close_fdp) =
        openat(summons->folder_fd, summons->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return -EPERM;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (chmod(path, 0600) < 0)
        return -errno;
    if (geteuid() == 0 && fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int listen_in(struct summons *summons, const char *proc, uid_t uid, gid_t gid)
{
    struct sockaddr_un address;
    socklen_t size;
    char path[64];
    summons->folder_fd = open_folder(proc, summons->pid, summons->folder);
    if (summons->folder_fd < 0)
        return summons->folder_fd;
    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", summons->folder_fd, summons->name);
    int r = unix_socket_address(path, &address, &size);
    if (r == 0)
        r = unix_socket_new(SOCK_SEQPACKET, &summons->listen_fd);
    if (r == 0 && bind(summons->listen_fd, (const struct sockaddr *)&address, size) < 0)
        r = -errno;
    if (r == 0)
        r = hand_over(summons, uid, gid);
    if (r == 0 && listen(summons->listen_fd, 4) < 0)
        r = -errno;
    return r;
}

int summons_open(struct summons *summons, const char *proc, int32_t pid, uid_t uid, gid_t gid,
                 const char *suffix)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    uint64_t random;
    *summons = (struct summons){.pid = pid, .folder_fd = -1, .listen_fd = -1};
    int r = getrandom(&random, sizeof(random), 0) < 0 ? -errno : -ENOENT;
    for (size_t i = 0; r < 0 && i < HEAP_SUMMONS_N_FOLDERS; i++) {
        summons->number = random - random % HEAP_SUMMONS_N_FOLDERS + i;
        snprintf(summons->folder, sizeof(summons->folder), "%s", folders[i]);
        snprintf(summons->name, sizeof(summons->name), HEAP_SUMMONS_PREFIX "%016" PRIx64 "%s",
                 summons->number, suffix);
        r = listen_in(summons, proc, uid, gid);
        if (r < 0)
            summons_close(summons);
    }
    return r;
}

int summons_accept(const struct summons *summons)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    int fd = accept4(summons->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == summons->pid)
        return fd;
    close_fd(fd);
    return -EPERM;
}

void summons_close(struct summons *summons)
{
    if (summons->listen_fd >= 0)
        unlinkat(summons->folder_fd, summons->name, 0);
    summons->listen_fd = close_fd(summons->listen_fd);
    summons->folder_fd = close_fd(summons->folder_fd);
}
