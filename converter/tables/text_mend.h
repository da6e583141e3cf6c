// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/str.h"

// Replaces bytes that are not UTF-8 by U+FFFD in `to`, which stays empty if the text is valid. The
// kernel cuts names of tasks within a character, and paths have any bytes; readers in other
// languages refuse a text that is not UTF-8.
void text_mend(struct strbuf *to, const char *text, size_t size);
