// SPDX-License-Identifier: Apache-2.0
//
// A log is a parameter, not a global. Therefore two sessions in one process can have different
// logs, and tests can read the lines.
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"

void log_line(const struct log *log, enum log_level level, const char *format, ...)
{
    if (!log || !log->write || level > log->max_level)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    str_make_printable(line, false);
    log->write(log->userdata, level, line);
}

void log_lines(const struct log *log, enum log_level level, const char *format, ...)
{
    if (!log || !log->write || level > log->max_level)
        return;
    char text[2048], *rest = text, *line;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    while ((line = strsep(&rest, "\n"))) {
        str_make_printable(line, false);
        log->write(log->userdata, level, line);
    }
}
