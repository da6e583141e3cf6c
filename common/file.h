// SPDX-License-Identifier: Apache-2.0
//
// Files as a whole, and the folders that they are in.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/str.h"

// Appends what there is to read, from where the descriptor stands; ret->text is not NULL then, also
// if that is nothing. 0, -EFBIG (more than `max_bytes`; some more than those are appended),
// -ENOMEM, or read's errno.
int fd_read_all(int fd, size_t max_bytes, struct strbuf *ret);

// 0, or write's errno; some of it may be written then.
int fd_write_all(int fd, const void *bytes, size_t size);

// Copies what there is to read, from where `from` stands, to `to`. 0, or a negative errno; then
// *ret_write says whether it is that of writing.
int fd_copy(int from, int to, bool *ret_write);

// Makes the folder, with `mode`, and those above it, with 0755, where they do not exist. 0 or a
// negative errno.
int folder_make(const char *path, mode_t mode);

// Opens `path`, which is taken from the folder `root_fd` on, and does not leave it, whatever links
// and ".." it has. Before Linux 5.6, and where a filter refuses openat2, a path with links in it is
// not opened at all. The descriptor, or a negative errno.
int open_in_root(int root_fd, const char *path, int flags);

// Opens a regular file for reading, by a path that somebody else chose: a FIFO, a device or a
// socket is looked at but never opened, because opening one may wait for ever or do something. The
// descriptor is O_NONBLOCK, which means nothing to a regular file. Negative errno: -EINVAL (another
// kind of file), -EFBIG (more than `max_bytes`), or that of opening.
int open_regular(const char *path, uint64_t max_bytes);
