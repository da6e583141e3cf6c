// SPDX-License-Identifier: Apache-2.0
//
// Lines of `perf script`: a line for each sample, a line for each frame of its call chain, and a
// blank line:
//
//     COMM PID/TID [CPU] SECONDS: COUNT EVENT:
//             ADDRESS FUNCTION+OFFSET (FILE)
//
// The process, the processor and the text after the time may be missing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/lines.h"

struct perf_line {
    struct span comm; // may be empty
    uint32_t pid, tid;
    bool has_pid;
    int64_t ts;       // ns
    struct span rest; // after the time
};

// Read the line of a sample and the line of a frame. Both functions return false for other lines.
bool perf_line_read(struct span line, struct perf_line *ret);
bool perf_frame_read(struct span line, struct span *function, struct span *file);

// Returns true if the first line of the bytes is a sample.
bool perf_text_recognise(const uint8_t *bytes, size_t size);
