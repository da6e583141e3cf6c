// SPDX-License-Identifier: Apache-2.0
//
// timeout(1) sends its signal to the command and then to the process group, which includes the
// command. So do some supervisors and terminals. The command gets the signal twice within a
// millisecond, and the second one does not mean that the recording should be dropped. A person who
// presses Ctrl-C again because the end takes too long does so later.
#include "producer/cli/end_signal.h"

#include <time.h>

#define REPEATED_WITHIN (300 * NSEC_PER_MSEC)

bool end_signal_repeats(struct end_signal *seen)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (!seen->first) {
        seen->first = now;
        return false;
    }
    return now - seen->first < REPEATED_WITHIN;
}
