// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a pinconfig: it is used in full or not at all, and its selections stay in the
// entry.
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/pinconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    CLEANUP(page_ranges_done) struct page_ranges got = {0};
    struct err err = {0};
    int r = pinconfig_parse((const char *)data, size, "config", &config, &err);
    if ((r == 0) != (config.files.n > 0) || (r < 0) != (err.text[0] != '\0'))
        abort();
    size_t n_ranges = 0;
    vec_foreach(&config.files, file) {
        n_ranges += file->n_ranges;
        if (pinconfig_select(&config, file, 1000, 4096, &got) < 0)
            return 0;
        vec_foreach(&got, range) {
            if (range->start < 1000 || range->end > 5096 || range->start >= range->end)
                abort();
        }
        if (!pinconfig_match(&config, file->pattern))
            abort();
    }
    if (n_ranges != config.ranges.n)
        abort();
    return 0;
}
