// SPDX-License-Identifier: Apache-2.0
//
// Small files as a whole. Reading has a limit. Writing is atomic: a reader finds the old file or
// the new one, never a part.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"

// Appends the whole file, or all of standard input for "-". Returns 0; -EFBIG if there are more
// than `max_bytes`; or the negative errno of open or read.
int whole_file_read(const char *path, size_t max_bytes, struct strbuf *ret, struct err *err);

// Replaces the file through a temporary name in its folder. An existing file's mode is kept. A link
// is followed, unless another user may have put it there (-EPERM). A file that is not regular (a
// pipe, /dev/stdout) is written in place. On failure the old file stays as it was.
int whole_file_write(const char *path, const void *bytes, size_t size, struct err *err);

// Replaces the file at a name that the user did not choose: anything that has the name, even a link
// or a pipe, is replaced by a new file.
int whole_file_replace(const char *path, const void *bytes, size_t size, struct err *err);
