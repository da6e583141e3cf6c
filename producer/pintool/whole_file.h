// SPDX-License-Identifier: Apache-2.0
//
// Small files as a whole: read with a limit, written so that a reader finds the old one or the new
// one, never a part.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"

// Appends all of the file, or of standard input for "-"; -EFBIG if that is more than `max_bytes`,
// or open's, read's errno.
int whole_file_read(const char *path, size_t max_bytes, struct strbuf *ret, struct err *err);

// Replaces the file, which keeps its mode if it exists, by way of another name in its folder. A
// link is followed, unless a stranger may have put it there (-EACCES). A file that is not regular
// (a pipe, /dev/stdout) is written to. On failure the old file is as it was.
int whole_file_write(const char *path, const void *bytes, size_t size, struct err *err);

// The same for a name that the user did not choose: whatever has the name, a link or a pipe, is
// replaced by a new file.
int whole_file_replace(const char *path, const void *bytes, size_t size, struct err *err);
