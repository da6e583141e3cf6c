// SPDX-License-Identifier: Apache-2.0
//
// Files with a whole trace that are being completed: synced to the disk and renamed.
#pragma once

#include <stdint.h>

#include "producer/service/armed/armed_entry.h"

// Takes over the part in `file`, which becomes ARMED_FILE_NONE. When the file is complete, prunes
// the folder and logs a line. `n_lost` events are missing in the trace.
void armed_closing_begin(struct entry *entry, const struct armed_folder *folder,
                         struct armed_file *file, uint64_t n_lost);

const struct armed_closing *armed_closing_next(const struct armed_closing *closing);

// Waits for all closings. A file that cannot be completed stays a part.
void armed_closing_end(struct armed *armed);
