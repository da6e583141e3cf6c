// SPDX-License-Identifier: Apache-2.0
//
// The file formats, one row for each. Formats with a clear signature come first. A pinlist has only
// numbers and comes last.
#include <stdarg.h>
#include <stdio.h>

#include "common/str.h"
#include "converter/import/files/proc_snapshot.h"

#define FILE_FORMATS(F)                                                                            \
    F(alloc_log)                                                                                   \
    F(bugreport_index)                                                                             \
    F(kernel_log)                                                                                  \
    F(proc_version)                                                                                \
    F(proc_vmstat)                                                                                 \
    F(proc_meminfo)                                                                                \
    F(proc_zoneinfo)                                                                               \
    F(proc_buddyinfo)                                                                              \
    F(proc_slabinfo)                                                                               \
    F(proc_swaps)                                                                                  \
    F(proc_pressure)                                                                               \
    F(pinconfig)                                                                                   \
    F(perf_map)                                                                                    \
    F(pinlist)

#define DECLARED(name) extern const struct file_format file_format_##name;
FILE_FORMATS(DECLARED)

#define ROW(name) &file_format_##name,
const struct file_format *const file_formats[] = {FILE_FORMATS(ROW) NULL};

const struct file_format *file_format_of_option(const char *option)
{
    for (size_t i = 0; file_formats[i]; i++)
        if (str_eq(file_formats[i]->option, option))
            return file_formats[i];
    return NULL;
}

const struct file_format *file_format_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; file_formats[i]; i++)
        if (file_format_fits(file_formats[i], path, bytes, size))
            return file_formats[i];
    return NULL;
}

bool file_format_fits(const struct file_format *format, const char *path, const uint8_t *bytes,
                      size_t size)
{
    if (format->recognise)
        return format->recognise(path, bytes, size);
    struct lines lines = lines_over(bytes, size);
    struct span wanted = {format->first_words, strchr(format->first_words, '\0')}, line;
    bool fits = lines_next(&lines, &line) && text_size(line) <= LINE_MAX_BYTES;
    while (fits && wanted.at < wanted.end) {
        struct span word = word_take(&line), other = word_take(&wanted);
        fits =
            text_size(word) == text_size(other) && memcmp(word.at, other.at, text_size(word)) == 0;
    }
    return fits;
}

int file_format_import(const struct file_format *format, struct file_import *in,
                       const uint8_t *bytes, size_t size, struct err *err)
{
    return format->import ? format->import(in, bytes, size, err)
                          : proc_lines_import(in, bytes, size, &format->lines, NULL, err);
}

void file_bad(struct file_import *in, uint64_t line, const char *format, ...)
{
    if (in->n_bad++)
        return;
    in->first_bad = line;
    va_list args;
    va_start(args, format);
    vsnprintf(in->first_why, sizeof(in->first_why), format, args);
    va_end(args);
    str_make_printable(in->first_why, false);
}
