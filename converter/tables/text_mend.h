// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/str.h"

// Kernel names of tasks are cut in the middle of a character, paths have any bytes; but readers in
// other languages refuse a text that is no UTF-8. Such bytes become U+FFFD in `to`, which stays
// empty if the text is good.
void text_mend(struct strbuf *to, const char *text, size_t size);
