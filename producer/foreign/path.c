// SPDX-License-Identifier: Apache-2.0
//
// open() of a device or a FIFO has side effects: it allocates a terminal, arms a watchdog, or waits
// for a writer. Therefore the name is looked up by O_PATH, which opens nothing, and the descriptor
// is checked. Then /proc/self/fd opens exactly this file, even if another file has the name by
// then.
//
// RESOLVE_NO_XDEV is not used, because /tmp of a container is usually a file system of its own.
// RESOLVE_IN_ROOT keeps the path below the root instead.
#include "producer/foreign/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "producer/foreign/process_file.h"

int foreign_root(const char *proc, int32_t pid)
{
    struct process_file root;
    int r = process_file_open(&root, proc, pid, "root", O_PATH | O_DIRECTORY);
    return r < 0 ? r : root.fd;
}

static int judge(const struct foreign_want *want, const struct stat *st)
{
    bool is_owned = want->owners == NULL;
    for (size_t i = 0; i < want->n_owners; i++)
        is_owned |= st->st_uid == want->owners[i];
    if ((st->st_mode & S_IFMT) != want->type || !is_owned ||
        (want->modified_earliest && st->st_mtime < want->modified_earliest))
        return -EPERM;
    return want->max_bytes && (uint64_t)st->st_size > want->max_bytes ? -EFBIG : 0;
}

int foreign_open(int root_fd, const char *path, int flags, const struct foreign_want *want,
                 struct stat *ret_st)
{
    char self[32];
    struct stat st;
    int held CLEANUP(close_fdp) =
        open_in_root(root_fd, path, O_PATH | (flags & (O_NOFOLLOW | O_DIRECTORY)));
    if (held < 0)
        return held;
    int r = fstat(held, &st) < 0 ? -errno : judge(want, &st);
    if (r < 0)
        return r;
    if (ret_st)
        *ret_st = st;
    if (flags & O_PATH)
        return steal_fd(&held);
    snprintf(self, sizeof(self), "/proc/self/fd/%d", held);
    int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (flags & O_DIRECTORY));
    return fd < 0 ? -errno : fd;
}
