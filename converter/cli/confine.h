// SPDX-License-Identifier: Apache-2.0
//
// Confinement of a process of root before it reads an untrusted trace: the process drops its rights
// and limits the resources that a damaged or hostile trace can use.
#pragma once

#include "common/err.h"

// Changes root to nobody; limits memory, processor time, file sizes and core dumps; makes this
// process the first victim of the OOM killer. Returns 0 or a negative errno with text. After an
// error, the caller must not read any file.
int confine(struct err *err);
