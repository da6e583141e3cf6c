// SPDX-License-Identifier: Apache-2.0
//
// The signals that end a command: the first one ends it in order, a second one at once.
#pragma once

#include <stdbool.h>

#include "common/nsec.h"

struct end_signal {
    nsec_t first; // 0: none has come
};

// Takes note of a signal. True: it repeats the first one, and means nothing.
bool end_signal_repeats(struct end_signal *seen);
