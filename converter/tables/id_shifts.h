// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "converter/tables/cell.h"
#include "converter/tables/schema.h"

// The numbers that are added to each stored column when rows are written, so that the rows fit
// beside the rows of another database.
struct id_shifts {
    int64_t add[N_TABLES][TABLE_CELLS_MAX];
};
