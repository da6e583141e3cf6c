// SPDX-License-Identifier: Apache-2.0
//
// The lines are ASCII: names come from other users' programs, and a byte outside of ASCII, or a
// control character, becomes '?'. A terminal never gets a sequence that somebody else chose.
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/cli/top.h"

#define STALL_WARN 0.01 // part of the time
#define STALL_BAD  0.10
#define TASKS_ROWS 3

struct lines {
    struct top_line *items;
    size_t n, rows, columns;
};

static char ascii(char c)
{
    return c >= ' ' && c < 0x7f ? c : '?';
}

__attribute__((format(printf, 3, 4))) static void line_add(struct lines *lines, enum top_look look,
                                                           const char *format, ...)
{
    va_list args;
    if (lines->n == lines->rows)
        return;
    struct top_line *line = &lines->items[lines->n++];
    va_start(args, format);
    vsnprintf(line->text, lines->columns + 1, format, args);
    va_end(args);
    for (char *c = line->text; *c; c++)
        *c = ascii(*c);
    line->look = look;
}

static size_t left(const struct lines *lines)
{
    return lines->rows - lines->n;
}

// "8.2G": four or five characters.
static const char *size_text(char ret[16], double bytes)
{
    static const char units[] = "BKMGTP";
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < sizeof(units) - 2; unit++)
        bytes /= 1024;
    snprintf(ret, 16, bytes < 9.95 && unit ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
    return ret;
}

static const char *count_text(char ret[16], double n)
{
    static const char units[] = " kMGT";
    size_t unit = 0;
    for (; n >= 9999.5 && unit < sizeof(units) - 2; unit++)
        n /= 1000;
    if (unit)
        snprintf(ret, 16, "%.0f%c", n, units[unit]);
    else
        snprintf(ret, 16, "%.0f", n);
    return ret;
}

static enum top_look stall_look(double part)
{
    return part >= STALL_BAD ? TOP_BAD : part >= STALL_WARN ? TOP_WARN : TOP_GOOD;
}

static void add_head(struct lines *lines, const struct top_sampler *s, const struct top_view *view)
{
    char a[16], b[16], c[16], d[16], e[16], f[16];
    const char *recording = view->record ? "  recording " : "", *to = view->record;
    if (!view->has_keys)
        line_add(lines, TOP_TITLE, "mmtrace top%s%s", recording, to ? to : "");
    else
        line_add(lines, TOP_TITLE, "mmtrace top  q quits, h helps, s sorts by %s%s%s",
                 view->sort == TOP_BY_SIZE ? "growth" : "size", recording, to ? to : "");
    if (s->has_pressure)
        line_add(lines, stall_look(s->some),
                 "Stalled   some %5.1f %%   all %5.1f %%   10 s: some %.1f %%, all %.1f %%",
                 s->some * 100, s->full * 100, s->some_avg10, s->full_avg10);
    else
        line_add(lines, TOP_PLAIN, "Stalled   unknown: the kernel has no /proc/pressure");
    line_add(
        lines, TOP_PLAIN, "Memory    total %s, free %s, available %s, cached %s, anon %s, slab %s",
        size_text(a, (double)s->total_kb * 1024), size_text(b, (double)s->free_kb * 1024),
        size_text(c, (double)s->available_kb * 1024), size_text(d, (double)s->cached_kb * 1024),
        size_text(e, (double)s->anon_kb * 1024), size_text(f, (double)s->slab_kb * 1024));
    const double *r = s->rates;
    line_add(lines, r[TOP_SCAN_DIRECT] > 0 ? TOP_WARN : TOP_PLAIN,
             "Pages/s   scanned %s (%s direct), freed %s (%s), came back %s + %s anon",
             count_text(a, r[TOP_SCAN]), count_text(b, r[TOP_SCAN_DIRECT]),
             count_text(c, r[TOP_STEAL]), count_text(d, r[TOP_STEAL_DIRECT]),
             count_text(e, r[TOP_REFAULT_FILE]), count_text(f, r[TOP_REFAULT_ANON]));
    line_add(lines, r[TOP_MAJOR_FAULT] >= 100 ? TOP_WARN : TOP_PLAIN,
             "Events/s  faults %s, major %s, read %s, written %s", count_text(a, r[TOP_FAULT]),
             count_text(b, r[TOP_MAJOR_FAULT]), size_text(c, r[TOP_PAGE_IN] * 1024),
             size_text(d, r[TOP_PAGE_OUT] * 1024));
    if (s->swap_total_kb)
        line_add(lines, r[TOP_SWAP_OUT] > 0 ? TOP_WARN : TOP_PLAIN,
                 "Swap      %s of %s used, pages/s in %s, out %s",
                 size_text(a, (double)(s->swap_total_kb - s->swap_free_kb) * 1024),
                 size_text(b, (double)s->swap_total_kb * 1024), count_text(c, r[TOP_SWAP_IN]),
                 count_text(d, r[TOP_SWAP_OUT]));
    if (s->counters[TOP_OOM_KILL])
        line_add(lines, r[TOP_OOM_KILL] > 0 ? TOP_BAD : TOP_PLAIN,
                 "OOM       %" PRIu64 " kills since the machine started",
                 s->counters[TOP_OOM_KILL]);
}

static int by_time(const void *left, const void *right)
{
    nsec_t a = ((const struct top_task *)left)->took, b = ((const struct top_task *)right)->took;
    return a > b ? -1 : a < b;
}

static void add_reclaim(struct lines *lines, const struct top_sampler *s)
{
    struct top_task tasks[TOP_TASKS_MAX];
    bool lost = false;
    size_t n = 0;
    if (!s->reclaim) {
        line_add(lines, TOP_TITLE, "Reclaim by task: %s", s->reclaim_error);
        return;
    }
    const struct top_task *from = top_reclaim_tasks(s->reclaim, &n, &lost);
    memcpy(tasks, from, n * sizeof(*tasks));
    qsort(tasks, n, sizeof(*tasks), by_time);
    line_add(lines, TOP_TITLE, "%8s %8s %10s %10s  Reclaim by task%s", "PID", "Times", "Total ms",
             "Longest ms", lost ? ", some of it" : "");
    size_t shown = n < TASKS_ROWS ? n : TASKS_ROWS;
    for (size_t i = 0; i < shown; i++)
        line_add(lines, TOP_PLAIN, "%8d %8" PRIu64 " %10.1f %10.1f  %s", tasks[i].pid, tasks[i].n,
                 (double)tasks[i].took / 1e6, (double)tasks[i].longest / 1e6, tasks[i].name);
    if (!n)
        line_add(lines, TOP_PLAIN, "%42s", "none since the start");
}

static void add_files(struct lines *lines, const struct top_sampler *s)
{
    char a[16], b[16];
    double page = (double)sysconf(_SC_PAGESIZE);
    if (!s->n_files)
        return;
    line_add(lines, TOP_TITLE, "%8s %8s %5s  %s", "In cache", "Size", "", "File");
    for (size_t i = 0; i < s->n_files; i++) {
        const struct top_file *file = &s->files[i];
        if (file->error[0])
            line_add(lines, TOP_WARN, "%8s %8s %5s  %s: %s", "?", "?", "", file->path, file->error);
        else
            line_add(
                lines, TOP_PLAIN, "%8s %8s %3.0f %%  %s", size_text(a, (double)file->cached * page),
                size_text(b, (double)file->pages * page),
                file->pages ? 100.0 * (double)file->cached / (double)file->pages : 0, file->path);
    }
}

static int by_bytes(const void *left, const void *right)
{
    uint64_t a = ((const struct top_cgroup *)left)->bytes,
             b = ((const struct top_cgroup *)right)->bytes;
    return a > b ? -1 : a < b;
}

static void add_groups(struct lines *lines, struct top_sampler *s, size_t rows)
{
    char a[16];
    if (!s->n_groups || rows < 2)
        return;
    qsort(s->groups, s->n_groups, sizeof(*s->groups), by_bytes);
    line_add(lines, TOP_TITLE, "%8s  %s", "Memory", "Cgroup");
    for (size_t i = 0; i < s->n_groups && i < rows - 1; i++)
        line_add(lines, TOP_PLAIN, "%8s  %s", size_text(a, (double)s->groups[i].bytes),
                 s->groups[i].name);
}

// Returns whether `a` comes before `b`.
static bool is_before(const struct top_process *a, const struct top_process *b, enum top_sort sort)
{
    if (sort == TOP_BY_GROWTH && a->growth != b->growth)
        return a->growth > b->growth;
    return a->rss != b->rss ? a->rss > b->rss : a->pid < b->pid;
}

// Finds the first `max` processes in the order of `sort`. Returns their number.
static size_t first_of(const struct top_sampler *s, enum top_sort sort,
                       const struct top_process **ret, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < s->processes.n; i++) {
        const struct top_process *process = &s->processes.items[i];
        size_t at = n;
        while (at > 0 && is_before(process, ret[at - 1], sort))
            at--;
        if (at == max)
            continue;
        n += n < max;
        memmove(ret + at + 1, ret + at, (n - at - 1) * sizeof(*ret));
        ret[at] = process;
    }
    return n;
}

static void add_processes(struct lines *lines, const struct top_sampler *s, enum top_sort sort,
                          size_t rows)
{
    const struct top_process *first[TOP_ROWS_MAX];
    char a[16], b[16];
    double page = (double)sysconf(_SC_PAGESIZE);
    if (rows < 2)
        return;
    size_t n = first_of(s, sort, first, rows - 1);
    line_add(lines, TOP_TITLE, "%8s %8s %9s  %s", "PID", sort == TOP_BY_SIZE ? "[Size]" : "Size",
             sort == TOP_BY_GROWTH ? "[Growth/s]" : "Growth/s", "Process");
    for (size_t i = 0; i < n; i++) {
        double growth = first[i]->growth;
        bool is_still = growth < 512 && growth > -512;
        line_add(lines, growth > 10 * 1024 * 1024 ? TOP_WARN : TOP_PLAIN, "%8d %8s %s%8s  %s",
                 (int)first[i]->pid, size_text(a, (double)first[i]->rss * page),
                 is_still     ? " "
                 : growth > 0 ? "+"
                              : "-",
                 is_still ? "-" : size_text(b, growth > 0 ? growth : -growth), first[i]->name);
    }
}

static void add_help(struct lines *lines)
{
    static const char *const texts[] = {
        "q         end",
        "s         sort processes by size or by growth",
        "h, ?      this help, and back",
        "+, -      sample less often, more often",
        "",
        "Stalled   part of the time since the last sample in which some task, or all",
        "          tasks, waited for memory; and the kernel's mean of 10 s",
        "Pages/s   scanned and freed in all (by tasks that needed memory at once, outside",
        "          memory cgroups); evicted pages that came back, of files + of programs",
        "Reclaim   tasks that reclaimed or compacted memory while this program ran",
        "Growth/s  of the resident memory, smoothed over some samples",
        "In cache  how much of the files on the command line is in the page cache",
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        line_add(lines, TOP_PLAIN, "%s", texts[i]);
}

size_t top_view_lines(struct top_sampler *sampler, const struct top_view *view, size_t rows,
                      size_t columns, struct top_line *ret)
{
    struct lines lines = {.items = ret,
                          .rows = rows < TOP_ROWS_MAX ? rows : TOP_ROWS_MAX,
                          .columns = columns < TOP_COLUMNS_MAX ? columns : TOP_COLUMNS_MAX};
    add_head(&lines, sampler, view);
    if (view->help) {
        add_help(&lines);
        return lines.n;
    }
    add_reclaim(&lines, sampler);
    add_files(&lines, sampler);
    // Processes get two thirds of the rest.
    size_t groups = sampler->n_groups ? left(&lines) / 3 : 0;
    groups = groups < sampler->n_groups + 1 ? groups : sampler->n_groups + 1;
    add_processes(&lines, sampler, view->sort, left(&lines) - groups);
    add_groups(&lines, sampler, left(&lines));
    return lines.n;
}
