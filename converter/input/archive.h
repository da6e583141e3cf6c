// SPDX-License-Identifier: Apache-2.0
//
// Zip and tar archives: bugreports and other archives of traces.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "converter/input/archive_parts.h"
#include "converter/input/input.h"

// Returns the bytes that an archive may inflate to. The size of its file sets the limits.
struct inflation inflation_of(const struct input *input);

bool archive_recognise(const struct input *input);

// Inflates the useful entries: traces, and other files that `wanted` accepts by name and first
// bytes. In a bugreport, only the folder of its traces, FS/proc, index.txt and kernel.log are read.
// `path` is for messages. `needs`: as for input_open(). Entries that cannot be read, or inflate to
// far too much, are left out and named in *left_out. Returns 0 or a negative errno with text:
// -ENOENT if no entry is useful; the error of a left-out entry if no other entry is useful. The
// caller passes `files` and `left_out` empty, and frees both in any case.
int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out);
