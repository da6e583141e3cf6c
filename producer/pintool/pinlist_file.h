// SPDX-License-Identifier: Apache-2.0
//
// pinlist.meta on the disk.
#pragma once

#include "common/err.h"
#include "common/pinlist.h"

// All of the list, or an error whose text begins with the path; see pinlist_parse().
int pinlist_file_read(const char *path, struct pinlist *ret, struct err *err);

// Replaces the file at once; see whole_file_write().
int pinlist_file_write(const char *path, const struct pinlist *list, struct err *err);
