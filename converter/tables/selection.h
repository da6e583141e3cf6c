// SPDX-License-Identifier: Apache-2.0
//
// The selection of tables that a conversion fills. The other tables exist and are empty.
#pragma once

#include "common/err.h"
#include "converter/tables/database.h"

// Keeps only the tables and views in `names`, separated by commas, and the tables about the trace
// as a whole. Returns 0 or a negative errno with text; -EINVAL for an unknown name.
int selection_keep(struct selection *selection, const char *names, struct err *err);

// The functions below implement the options --no-args, --no-ftrace and --no-sched.
void selection_drop_args(struct selection *selection);
void selection_drop_ftrace(struct selection *selection);
void selection_drop_sched(struct selection *selection);
