// SPDX-License-Identifier: Apache-2.0
//
// Files that hold all of their trace, on their way to the disk and to their names.
#pragma once

#include <stdint.h>

#include "producer/service/armed/armed_entry.h"

// Takes the part over and leaves ARMED_FILE_NONE. When the trace is safe, the folder is pruned and
// the log has a line. `n_lost` events are not in it.
void armed_closing_begin(struct entry *entry, const struct armed_folder *folder,
                         struct armed_file *file, uint64_t n_lost);

const struct armed_closing *armed_closing_next(const struct armed_closing *closing);

// Waits for all. A file that is not done by then stays a part.
void armed_closing_end(struct armed *armed);
