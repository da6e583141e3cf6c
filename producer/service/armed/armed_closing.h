// SPDX-License-Identifier: Apache-2.0
//
// Files that have all of their trace and are being completed: written to the disk and named.
#pragma once

#include <stdint.h>

#include "producer/service/armed/armed_entry.h"

// Takes over the part in `file`, which becomes ARMED_FILE_NONE. When the trace is safe, prunes the
// folder and logs a line. `n_lost` events are missing in the trace.
void armed_closing_begin(struct entry *entry, const struct armed_folder *folder,
                         struct armed_file *file, uint64_t n_lost);

const struct armed_closing *armed_closing_next(const struct armed_closing *closing);

// Waits for all closings. A file that is not done then stays a part.
void armed_closing_end(struct armed *armed);
