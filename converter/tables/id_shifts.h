// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "converter/tables/cell.h"
#include "converter/tables/schema.h"

// What numbers of each stored column grow by when they are written, so that the rows can stand
// beside those of another database.
struct id_shifts {
    int64_t add[N_TABLES][TABLE_CELLS_MAX];
};
