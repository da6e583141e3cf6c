// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

#include "converter/functions/functions.h"

// Appends the kernel's names of the bits of gfp_flags. `kernel_version`: see common/task_state.h.
void gfp_flags_add(sqlite3_str *text, uint64_t flags, uint32_t kernel_version);
