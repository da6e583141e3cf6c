// SPDX-License-Identifier: Apache-2.0
//
// Messages of a running module. Each message is one line. The owner of the `struct log` receives
// the lines, and writes them to a program's stderr, a test's buffer or the journal. A failure that
// ends an operation is a `struct err`, not a log line.
#pragma once

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

struct log {
    enum log_level max_level;
    // Receives one line, without its newline. `userdata` is borrowed.
    void (*write)(void *userdata, enum log_level level, const char *line);
    void *userdata;
};

// Writes one line. `log` may be NULL: the line is dropped. Lines are cut at 1,023 bytes. Characters
// that are not printable become `?`.
__attribute__((format(printf, 3, 4))) void log_line(const struct log *log, enum log_level level,
                                                    const char *format, ...);

// Writes a text of several lines, for example a config error with an excerpt. Use log_lines() only
// where all newlines are the program's own.
__attribute__((format(printf, 3, 4))) void log_lines(const struct log *log, enum log_level level,
                                                     const char *format, ...);

#define log_error(log, ...)   log_line(log, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(log, ...) log_line(log, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(log, ...)    log_line(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(log, ...)   log_line(log, LOG_LEVEL_DEBUG, __VA_ARGS__)
