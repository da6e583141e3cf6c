// SPDX-License-Identifier: Apache-2.0
//
// Which tables a conversion fills. The others are there, and empty.
#pragma once

#include "common/err.h"
#include "converter/tables/database.h"

// Keeps only these tables and views, names with commas between them, and what tells about the trace
// as a whole. -EINVAL: there is no such table.
int selection_keep(struct selection *selection, const char *names, struct err *err);

// Drops what is called NAME in --no-NAME: args, ftrace or sched.
void selection_drop_args(struct selection *selection);
void selection_drop_ftrace(struct selection *selection);
void selection_drop_sched(struct selection *selection);
