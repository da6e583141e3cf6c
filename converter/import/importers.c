// SPDX-License-Identifier: Apache-2.0
//
// The packet kinds that are understood, a row each.
#include "converter/import/importer.h"

extern const struct importer importer_sys_stats;

const struct importer *const importers[] = {
    &importer_sys_stats,
};
const size_t n_importers = sizeof(importers) / sizeof(importers[0]);
