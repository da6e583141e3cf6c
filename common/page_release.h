// SPDX-License-Identifier: Apache-2.0
//
// Memory of this process: giving pages back.
#pragma once

#include <stddef.h>

// Gives whole pages of a private anonymous mapping back to the system, locked pages too. The pages
// stay mapped and read as zeros. `memory` must be the start of a page.
void pages_give_back(void *memory, size_t size);
