// SPDX-License-Identifier: Apache-2.0
//
// Of a conversion: the database that it begins with.
#pragma once

#include "converter/cli/conversion_run.h"

// Brings a journal beside the old database to its end. 0 or a negative errno with text.
int run_settle_journals(struct run *run);

// Makes the working file a copy of the old database, or one without rows. 0 or a negative errno
// with text.
int run_copy_base(struct run *run);
int run_make_base(struct run *run);
