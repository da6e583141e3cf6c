// SPDX-License-Identifier: Apache-2.0
//
// Returns memory of this process to the kernel.
#pragma once

#include <stddef.h>

// Returns whole pages of a private anonymous mapping to the kernel, locked pages too. The pages
// stay mapped and read as zeros. `memory` must be the start of a page.
void pages_give_back(void *memory, size_t size);
