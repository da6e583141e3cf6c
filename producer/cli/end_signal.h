// SPDX-License-Identifier: Apache-2.0
//
// The signals that end a command: the first one ends the command in order, a second one at once.
#pragma once

#include <stdbool.h>

#include "common/nsec.h"

struct end_signal {
    nsec_t first; // 0: none has come
};

// Notes a signal. Returns true if the signal only repeats the first one and should be ignored.
bool end_signal_repeats(struct end_signal *seen);
