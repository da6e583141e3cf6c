// SPDX-License-Identifier: Apache-2.0
//
// The first content of the working file: the old database, or an empty database.
#pragma once

#include "converter/cli/conversion_run.h"

// Rolls back or checkpoints a journal beside the old database. Returns 0 or a negative errno with
// text.
int run_settle_journals(struct run *run);

// Makes the working file a copy of the old database, or a database without rows. Returns 0 or a
// negative errno with text.
int run_copy_base(struct run *run);
int run_make_base(struct run *run);
