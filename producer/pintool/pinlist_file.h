// SPDX-License-Identifier: Apache-2.0
//
// Pinlists where they are: a pinlist.meta, standard input, or an APK with one inside.
#pragma once

#include "common/err.h"
#include "common/pinlist.h"
#include "producer/pintool/list_source.h"

// All of the list, or an error whose text begins with the path; see pinlist_parse(). "-" is
// standard input. A zip stands for the list inside it; see embedded_list_read(). *ret_source: the
// origin of the list, as far as it is known; may be NULL.
int pinlist_file_read(const char *path, struct pinlist *ret, struct list_source *ret_source,
                      struct err *err);

// Whether pinlist_file_read() would look for a list inside the file. 0, or open's errno.
int pinlist_file_is_zip(const char *path, bool *ret);

// The list at `path` if that is a file that can be read and is nothing but a pinlist; otherwise
// *ret_is_list is false. 0 or -ENOMEM.
int pinlist_file_peek(const char *path, struct pinlist *ret, bool *ret_is_list);
