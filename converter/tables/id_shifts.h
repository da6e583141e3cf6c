// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "converter/tables/cell.h"
#include "converter/tables/schema.h"

// Numbers to add to each stored column when rows are written. With shifted ids, the rows can be
// added to another database.
struct id_shifts {
    int64_t add[N_TABLES][TABLE_CELLS_MAX];
};
