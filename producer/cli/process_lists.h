// SPDX-License-Identifier: Apache-2.0
//
// Lists of processes and of names on a command line, separated by commas.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"

VEC_DEFINE(list_pids, uint64_t);
VEC_DEFINE(list_names, char *); // owned texts

// Each function adds the words of `text` to a list. Returns 0 or a negative errno with text.
int list_pids_take(struct list_pids *list, const char *text, struct err *err);
int list_names_take(struct list_names *list, const char *text, struct err *err);

void list_names_free(struct list_names *list);
