// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc that are lists: vmstat, meminfo, slabinfo, swaps and pressure/*. The first line
// identifies a file. Lines that only newer kernels write become rows with the kernel's names.
#include <string.h>

#include "common/str.h"
#include "common/text.h"
#include "converter/import/files/proc_snapshot.h"

#define PERCENT_MAX 1000 // more percent is damage
#define KB          1024

// -- vmstat --

static const char *vmstat_line(struct proc_import *import, struct span line)
{
    struct span name = word_take(&line);
    int64_t value;
    if (!proc_name_fits(name))
        return "no name of a counter";
    if (!proc_number(line, &value))
        return "no number after the name";
    proc_text(import, COL_proc_vmstat_name, name);
    rows_int(&import->rows, COL_proc_vmstat_value, value);
    proc_row(import);
    return NULL;
}

const struct file_format file_format_proc_vmstat = {
    .name = "/proc/vmstat",
    .option = "proc-vmstat",
    .first_words = "nr_free_pages",
    .lines = {TABLE_proc_vmstat, COL_proc_vmstat_proc_snapshot_id, vmstat_line},
    .of_moment = true,
};

// -- meminfo --

static const char *meminfo_line(struct proc_import *import, struct span line)
{
    struct span name = word_take(&line), number = word_take(&line);
    int64_t value;
    if (!proc_name_fits(name) || name.end[-1] != ':')
        return "no name with a colon";
    name.end--;
    bool is_kb = text_is(line, "kB");
    if (!proc_number(number, &value) || (!is_kb && line.at < line.end) ||
        (is_kb && value > INT64_MAX / KB))
        return "no number, with or without kB, after the name";
    proc_text(import, COL_proc_meminfo_name, name);
    if (is_kb)
        rows_int(&import->rows, COL_proc_meminfo_size_bytes, value * KB);
    else
        rows_int(&import->rows, COL_proc_meminfo_n_pages, value);
    proc_row(import);
    return NULL;
}

const struct file_format file_format_proc_meminfo = {
    .name = "/proc/meminfo",
    .option = "proc-meminfo",
    .first_words = "MemTotal:",
    .lines = {TABLE_proc_meminfo, COL_proc_meminfo_proc_snapshot_id, meminfo_line},
    .of_moment = true,
};

// -- slabinfo --

// Reads a line. The numbers are read from the end of their part, because a name may have blanks.
static const char *slabinfo_line(struct proc_import *import, struct span line)
{
    static const size_t columns[] = {
        COL_proc_slabinfo_pages_per_slab,    COL_proc_slabinfo_objects_per_slab,
        COL_proc_slabinfo_object_size_bytes, COL_proc_slabinfo_n_objects,
        COL_proc_slabinfo_n_active_objects,
    };
    static const char tunables[] = " : tunables ";
    int64_t values[5], n_active, n_slabs;
    if (import->line == 1 || *line.at == '#')
        return NULL;
    const char *at = memmem(line.at, text_size(line), tunables, sizeof(tunables) - 1);
    struct span left = {line.at, at ? at : line.at};
    for (size_t i = 0; i < 5; i++)
        if (!proc_number(last_word_take(&left), &values[i]))
            return "not a line of slabinfo 2.x";
    if (!proc_name_fits(left))
        return "no name of a slab";
    last_word_take(&line); // shared
    if (!proc_number(last_word_take(&line), &n_slabs) ||
        !proc_number(last_word_take(&line), &n_active))
        return "no count of slabs at the end";
    proc_text(import, COL_proc_slabinfo_name, left);
    for (size_t i = 0; i < 5; i++)
        rows_int(&import->rows, columns[i], values[i]);
    rows_int(&import->rows, COL_proc_slabinfo_n_slabs, n_slabs);
    rows_int(&import->rows, COL_proc_slabinfo_n_active_slabs, n_active);
    proc_row(import);
    return NULL;
}

const struct file_format file_format_proc_slabinfo = {
    .name = "/proc/slabinfo",
    .option = "proc-slabinfo",
    .first_words = "slabinfo",
    .lines = {TABLE_proc_slabinfo, COL_proc_slabinfo_proc_snapshot_id, slabinfo_line},
    .of_moment = true,
};

// -- swaps --

static const char *swaps_line(struct proc_import *import, struct span line)
{
    if (import->line == 1)
        return NULL;
    struct span priority = last_word_take(&line), used = last_word_take(&line);
    struct span size = last_word_take(&line), kind = last_word_take(&line);
    bool negative = priority.at < priority.end && *priority.at == '-';
    int64_t size_kb, used_kb, value;
    priority.at += negative;
    if (!proc_number(size, &size_kb) || !proc_number(used, &used_kb) ||
        !proc_number(priority, &value) || size_kb > INT64_MAX / KB || used_kb > INT64_MAX / KB)
        return "not a path, a type, a size, a use and a priority";
    if (line.at == line.end || text_size(line) > LINE_MAX_BYTES || !proc_name_fits(kind))
        return "no path";
    proc_text(import, COL_proc_swap_path, line);
    proc_text(import, COL_proc_swap_type, kind);
    rows_int(&import->rows, COL_proc_swap_size_bytes, size_kb * KB);
    rows_int(&import->rows, COL_proc_swap_used_bytes, used_kb * KB);
    rows_int(&import->rows, COL_proc_swap_priority, negative ? -value : value);
    proc_row(import);
    return NULL;
}

// Imports the file. Without swap, the file has only the heading.
static int swaps_import(struct file_import *in, const uint8_t *bytes, size_t size, struct err *err)
{
    int64_t id;
    const uint8_t *newline = memchr(bytes, '\n', size);
    if (!newline || newline + 1 == bytes + size)
        return proc_snapshot_get(in, &id, err);
    return proc_lines_import(
        in, bytes, size,
        &(struct proc_lines){TABLE_proc_swap, COL_proc_swap_proc_snapshot_id, swaps_line}, NULL,
        err);
}

const struct file_format file_format_proc_swaps = {
    .name = "/proc/swaps",
    .option = "proc-swaps",
    .first_words = "Filename Type",
    .import = swaps_import,
    .of_moment = true,
};

// -- pressure/* --

// Takes "NAME=VALUE" with the name `name`.
static bool assigned_take(struct span *line, const char *name, struct span *ret)
{
    size_t n = strlen(name);
    struct span word = word_take(line);
    if (text_size(word) <= n || memcmp(word.at, name, n) != 0 || word.at[n] != '=')
        return false;
    *ret = (struct span){word.at + n + 1, word.end};
    return true;
}

// Reads a number like "12.34".
static bool percent_read(struct span word, double *ret)
{
    const char *dot = memchr(word.at, '.', text_size(word));
    struct span whole = {word.at, dot ? dot : word.end},
                rest = {dot ? dot + 1 : word.end, word.end};
    int64_t units, hundredths = 0;
    if (!proc_number(whole, &units) || units > PERCENT_MAX ||
        (dot && (text_size(rest) != 2 || !proc_number(rest, &hundredths))))
        return false;
    *ret = (double)units + (double)hundredths / 100;
    return true;
}

static const char *pressure_line(struct proc_import *import, struct span line)
{
    static const char *const names[] = {"avg10", "avg60", "avg300"};
    static const size_t columns[] = {COL_proc_pressure_avg10, COL_proc_pressure_avg60,
                                     COL_proc_pressure_avg300};
    struct span kind = word_take(&line), value;
    double percent[3];
    int64_t total_us;
    if (!text_is(kind, "some") && !text_is(kind, "full"))
        return "neither some nor full";
    for (size_t i = 0; i < 3; i++)
        if (!assigned_take(&line, names[i], &value) || !percent_read(value, &percent[i]))
            return "no averages";
    if (!assigned_take(&line, "total", &value) || !proc_number(value, &total_us) ||
        total_us > INT64_MAX / 1000)
        return "no total";
    const char *resource = import->state;
    rows_text(&import->rows, COL_proc_pressure_resource, resource, strlen(resource));
    proc_text(import, COL_proc_pressure_kind, kind);
    for (size_t i = 0; i < 3; i++)
        rows_real(&import->rows, columns[i], percent[i]);
    rows_int(&import->rows, COL_proc_pressure_total_ns, total_us * 1000);
    proc_row(import);
    return NULL;
}

static bool pressure_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    struct lines lines = lines_over(bytes, size);
    struct span line;
    (void)path;
    if (!lines_next(&lines, &line) || text_size(line) > LINE_MAX_BYTES)
        return false;
    struct span kind = word_take(&line);
    return (text_is(kind, "some") || text_is(kind, "full")) &&
           text_starts_with((struct text){line.at, text_size(line)}, TEXT("avg10="));
}

static int pressure_import(struct file_import *in, const uint8_t *bytes, size_t size,
                           struct err *err)
{
    char resource[PROC_NAME_MAX_BYTES];
    const char *name = proc_file_name(in->path);
    str_printable(resource, sizeof(resource), name, strlen(name));
    return proc_lines_import(in, bytes, size,
                             &(struct proc_lines){TABLE_proc_pressure,
                                                  COL_proc_pressure_proc_snapshot_id,
                                                  pressure_line},
                             resource, err);
}

const struct file_format file_format_proc_pressure = {
    .name = "/proc/pressure",
    .option = "proc-pressure",
    .recognise = pressure_recognise,
    .import = pressure_import,
    .of_moment = true,
};
