// SPDX-License-Identifier: Apache-2.0
//
// Pages of the own process.
#pragma once

#include <stddef.h>

// Gives whole pages of a private anonymous mapping back to the system, locked ones too. They stay
// mapped and read as zeros. `memory` is the beginning of a page.
void pages_give_back(void *memory, size_t size);
