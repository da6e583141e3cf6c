// SPDX-License-Identifier: Apache-2.0
//
// A preloaded program without a profile: it waits for a signal, and is otherwise unchanged.
#pragma once

#include <stdint.h>

// Takes the signal number in `signal_text`, the value of HEAP_SIGNAL_VARIABLE (NULL: the default),
// unless the program uses the signal.
void dormant_begin(const char *signal_text);

// Asks the sender of the summons for a ring. Returns a descriptor, or a negative errno if the
// sender does not want the program any more.
int dormant_answer(uint64_t summons);
