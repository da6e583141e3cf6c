// SPDX-License-Identifier: Apache-2.0
//
// Before a trace of a stranger is read on behalf of root: rights are given up, and what a damaged
// or hostile trace can cost is limited.
#pragma once

#include "common/err.h"

// Root becomes nobody; memory, processor time, file sizes and core dumps are limited; out of
// memory, this process is killed before others. 0, or a negative errno with text: nothing may be
// read then.
int confine(struct err *err);
