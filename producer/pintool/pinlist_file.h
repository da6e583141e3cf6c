// SPDX-License-Identifier: Apache-2.0
//
// Reads pinlists: from a pinlist.meta, from standard input, or from an APK.
#pragma once

#include "common/err.h"
#include "common/pinlist.h"
#include "producer/pintool/list_source.h"

// Reads a whole list. "-" is standard input. A zip stands for the list inside the zip
// (embedded_list_read()). *ret_source is the origin of the list, as far as it is known; may be
// NULL. Returns 0, or a negative errno with a text that begins with the path.
int pinlist_file_read(const char *path, struct pinlist *ret, struct list_source *ret_source,
                      struct err *err);

// Finds out whether pinlist_file_read() would look for a list inside the file. Returns 0 or the
// negative errno of opening the file.
int pinlist_file_is_zip(const char *path, bool *ret);

// Reads the list at `path`. *ret_is_list is false if the file cannot be read, or is not a pinlist.
// Returns 0 or -ENOMEM.
int pinlist_file_peek(const char *path, struct pinlist *ret, bool *ret_is_list);
