// SPDX-License-Identifier: Apache-2.0
//
// Packages that the trace names.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct import;
struct wire_field;

// The name of the package with that user id, in strings; NULL: none is known.
const uint64_t *packages_find(const struct import *im, uint32_t uid);

// There is a package of that name with that user id; *ret_new: it was not known, and may get a row.
// False: the conversion must end.
bool packages_see(struct import *im, const struct wire_field *name, int64_t uid, bool *ret_new);
