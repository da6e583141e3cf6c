// SPDX-License-Identifier: Apache-2.0
//
// Functions that read, write and copy whole files, make folders, and open untrusted paths.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"

// Reads `fd` from its present position to the end and appends the bytes to *ret. On success
// ret->text is not NULL, even if nothing was read. Returns 0; -EFBIG if the rest has more than
// `max_bytes` (*ret then holds a little more); -ENOMEM; or the negative errno of read(2).
int fd_read_all(int fd, size_t max_bytes, struct strbuf *ret);

// Writes all `size` bytes. Returns 0 or the negative errno of write(2); on failure some bytes may
// be written.
int fd_write_all(int fd, const void *bytes, size_t size);

// Copies `from`, from its present position to the end, to `to`. Returns 0 or a negative errno. On
// failure, *ret_write is true if the write failed, false if the read failed.
int fd_copy(int from, int to, bool *ret_write);

// Closes all descriptors from `first` on.
void fd_close_from(int first);

// Opens `path` relative to the folder `root_fd`. Links and ".." in `path` cannot lead out of the
// folder. If openat2(2) is missing (before Linux 5.6) or a filter refuses the call, a path with
// links is not opened. Returns the descriptor, or a negative errno.
int open_in_root(int root_fd, const char *path, int flags);

// Opens a regular file for reading, by an untrusted path. FIFOs, devices and sockets are never
// opened, because open(2) could block forever or have side effects. The descriptor is O_NONBLOCK,
// which has no effect on a regular file. Returns the descriptor; -EINVAL if the path is not a
// regular file; -EFBIG if the file has more than `max_bytes`; or the negative errno of opening.
int open_regular(const char *path, uint64_t max_bytes);

// Copies `size` bytes, or fewer at the end of the file `from`. *ret_write is true if a write
// failed. Returns 0 or a negative errno.
int fd_copy_bytes(int from, int to, uint64_t size, bool *ret_write);

// Returns true if both paths lead to one file, also by a link. Returns false if a file is missing,
// and for a terminal, pipe or socket, which keeps no bytes.
bool file_is_same(const char *a, const char *b);

// Returns the path for messages: replaces /proc/self/fd/N in /proc/self/fd/N/... by the path of the
// open folder, and copies any other path. The caller frees the result. Returns NULL if memory ran
// out.
char *path_shown(const char *path);

// The end of a walk along a path: the open folder of the last part, and the name there.
struct path_end {
    int folder; // owned, O_PATH
    char name[NAME_MAX + 1];
    bool is_magic; // the name is a link of /proc, as /proc/self/fd/1, which the kernel must follow

    // After -EPERM: the refused part, the reason, and the owner of the part.
    char *part; // owned
    const char *fault;
    uid_t owner;
};

#define PATH_END_INIT ((struct path_end){.folder = -1})

// Returns why a folder of a path is not to be trusted, or NULL.
typedef const char *(*folder_fault_fn)(const struct stat *st);

// Returns why other users could exchange entries of the folder, or NULL. For path_walk().
const char *folder_fault(const struct stat *st);

// Walks along the parts of `path`, and of the targets of links. The walk refuses each link that
// another user may have put there (path_end_is_strangers()): the user could lead root to any file.
// The folders are opened one by one, so no other user can exchange a folder after its check. The
// caller opens ret->name in ret->folder without following links (unless is_magic).
//
// `follows_last`: also follows a link that is the last part. The last part may be missing.
// `fault`: also judges each folder on the way to the last part; NULL: no folder is judged.
//
// Returns 0; -EPERM with ret->part for a refused part; or a negative errno. *ret is initialized
// with PATH_END_INIT and released by path_end_done(), after errors, too.
int path_walk(const char *path, bool follows_last, folder_fault_fn fault, struct path_end *ret);

// Returns whether another user may have put the last part there. The last part is then a link of
// another user (not root), or a file of another user in a folder of a different owner that
// everybody may write to (/tmp). The second rule is the kernel's own rule for protected files and
// links. `st` is from fstatat() without following, or from fstat() of the open file.
bool path_end_is_strangers(const struct path_end *end, const struct stat *st);

// Sets the text for a link that path_walk() refused. Returns -EPERM.
int path_walk_error(const char *path, const struct path_end *end, struct err *err);

// Makes the folder `path` with `mode`, and missing folders above it with mode 0755. Goes through no
// link that path_walk() refuses. Returns 0, or a negative errno with text.
int folder_make(const char *path, mode_t mode, struct err *err);

static inline void path_end_done(struct path_end *end)
{
    end->folder = close_fd(end->folder);
    free(STEAL(end->part));
}
