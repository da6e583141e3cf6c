// SPDX-License-Identifier: Apache-2.0
//
// The formats of files, a row each. Those that are sure of themselves come first: a pinlist is just
// numbers, and is asked last.
#include <stdarg.h>
#include <stdio.h>

#include "common/str.h"
#include "converter/import/files/file_format.h"

extern const struct file_format file_format_alloc_log;
extern const struct file_format file_format_bugreport_index;
extern const struct file_format file_format_kernel_log;
extern const struct file_format file_format_perf_map;
extern const struct file_format file_format_pinconfig;
extern const struct file_format file_format_pinlist;
extern const struct file_format file_format_proc_buddyinfo;
extern const struct file_format file_format_proc_meminfo;
extern const struct file_format file_format_proc_pressure;
extern const struct file_format file_format_proc_slabinfo;
extern const struct file_format file_format_proc_swaps;
extern const struct file_format file_format_proc_version;
extern const struct file_format file_format_proc_vmstat;
extern const struct file_format file_format_proc_zoneinfo;

const struct file_format *const file_formats[] = {
    &file_format_alloc_log,     &file_format_bugreport_index, &file_format_kernel_log,
    &file_format_proc_version,  &file_format_proc_vmstat,     &file_format_proc_meminfo,
    &file_format_proc_zoneinfo, &file_format_proc_buddyinfo,  &file_format_proc_slabinfo,
    &file_format_proc_swaps,    &file_format_proc_pressure,   &file_format_pinconfig,
    &file_format_perf_map,      &file_format_pinlist,         NULL,
};

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
        if (file_formats[i]->recognise(path, bytes, size))
            return file_formats[i];
    return NULL;
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
