// SPDX-License-Identifier: Apache-2.0
//
// What a running module has to say to people while it goes on working: one line each, handed to
// whoever owns the `struct log` (a program's stderr, a test's buffer, the journal). Failures that
// end an operation are `struct err`, not log lines.
#pragma once

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

struct log {
    enum log_level max_level;
    // Receives one line without newline. `userdata` is borrowed.
    void (*write)(void *userdata, enum log_level level, const char *line);
    void *userdata;
};

// `log` may be NULL: nobody listens. Lines are cut at 1,023 bytes; what is not printable
// in them becomes `?`, whoever's text it is.
__attribute__((format(printf, 3, 4))) void log_line(const struct log *log, enum log_level level,
                                                    const char *format, ...);

// The same for a text of several lines, such as a config error with the place that it shows: each
// newline begins a line of its own. Only for texts whose newlines are the program's.
__attribute__((format(printf, 3, 4))) void log_lines(const struct log *log, enum log_level level,
                                                     const char *format, ...);

#define log_error(log, ...)   log_line(log, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(log, ...) log_line(log, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(log, ...)    log_line(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(log, ...)   log_line(log, LOG_LEVEL_DEBUG, __VA_ARGS__)

// A log that prints `PROGRAM: LINE` to stderr; `program` is borrowed for the log's life.
struct log log_to_stderr(const char *program, enum log_level max_level);
