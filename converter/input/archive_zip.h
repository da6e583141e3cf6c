// SPDX-License-Identifier: Apache-2.0
//
// The reader of zip archives.
#pragma once

#include "converter/input/archive_parts.h"

// Reads the wanted entries. Returns 0, 1 if a limit ended the work, or a negative errno with text.
int archive_read_zip(struct archive *archive, struct err *err);
