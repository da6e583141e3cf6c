// SPDX-License-Identifier: Apache-2.0
//
// Packages of the trace.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct import;
struct wire_field;

// Returns the name of the package with the user id `uid`, in strings; NULL: not known.
const uint64_t *packages_find(const struct import *im, uint32_t uid);

// Adds a package and its user id. *ret_new: true if the package is new, and may get a row. False:
// the conversion must end.
bool packages_see(struct import *im, const struct wire_field *name, int64_t uid, bool *ret_new);
