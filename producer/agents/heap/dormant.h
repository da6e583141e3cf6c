// SPDX-License-Identifier: Apache-2.0
//
// A preloaded program without profile: it waits for a signal, and nothing else of it is changed.
#pragma once

#include <stdint.h>

// Takes the signal that HEAP_SIGNAL_VARIABLE says (NULL: the default), if nobody has it.
void dormant_begin(const char *signal_text);

// Asks whoever sent the summons for a ring. A descriptor, or a negative errno: nobody wants the
// program any more.
int dormant_answer(uint64_t summons);
