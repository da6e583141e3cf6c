// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as the file of trigger times: the times that are read are recent and bounded in
// number.
#include <stdlib.h>

#include "producer/service/triggers/trigger_history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct trigger_now now = {.boot = 5 * NSEC_PER_SEC, .real = 1700000000 * NSEC_PER_SEC};
    struct trigger_history history = {0};
    trigger_history_parse(&history, (const char *)data, size, now);
    if (history.times.n > TRIGGER_HISTORY_MAX)
        abort();
    vec_foreach(&history.times, time)
        if (time->time > now.boot || time->time <= now.boot - 24 * 3600 * NSEC_PER_SEC)
            abort();
    trigger_history_count(&history, "a", now);
    trigger_history_done(&history);
    return 0;
}
