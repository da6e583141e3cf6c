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
    nsec_t since;       // time of the first record, by the kernel log's clock (CLOCK_MONOTONIC); 0:
                        // all
    uint64_t max_bytes; // bytes of text; the latest records are kept
};

// Calls `take` for each line, formatted as "<6>[  123.456789] text" with a newline. Never waits.
// Returns 0; the first failure of `take`, which ends the reading; or a negative errno with text if
// `path` cannot be read.
int kernel_log_read(const char *path, const struct kernel_log_range *range,
                    int (*take)(void *userdata, const char *text, size_t size, struct err *err),
                    void *userdata, struct err *err);

// Formats one record of /dev/kmsg, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT\n KEY=VALUE`, into
// `line`, whose old content is replaced. Returns 0, -EINVAL for a malformed record, or -ENOMEM.
int kernel_log_format(const char *record, size_t size, struct strbuf *line, uint64_t *ret_sequence,
                      nsec_t *ret_time);
