// SPDX-License-Identifier: Apache-2.0
//
// The end of the kernel's log, from /dev/kmsg.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"

struct kernel_log_range {
    nsec_t since;       // kernel log time (CLOCK_MONOTONIC) of the first record, 0: all
    uint64_t max_bytes; // of text; the latest records are kept
};

// Hands the lines over, each as "<6>[  123.456789] text" with a newline. The first failure of
// `take` ends it and is returned. Never waits. -errno with text when `path` cannot be read.
int kernel_log_read(const char *path, const struct kernel_log_range *range,
                    int (*take)(void *userdata, const char *text, size_t size, struct err *err),
                    void *userdata, struct err *err);

// One record as it is read from /dev/kmsg, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT\n KEY=VALUE`:
// its line replaces what is in `line`. -EINVAL: not a record.
int kernel_log_format(const char *record, size_t size, struct strbuf *line, uint64_t *ret_sequence,
                      nsec_t *ret_time);
