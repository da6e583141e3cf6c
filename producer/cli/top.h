// SPDX-License-Identifier: Apache-2.0
//
// The parts of `mmtrace top`: samples (top_sample.c, top_reclaim.c), the lines that show them
// (top_view.c). The terminal is a library of its own (top_screen.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "common/vec.h"

#define TOP_NAME_MAX    64
#define TOP_CGROUPS_MAX 256
#define TOP_FILES_MAX   16
#define TOP_TASKS_MAX   256

// -- samples --

enum top_counter {
    TOP_SCAN, // all reclaim, also in memory cgroups
    TOP_SCAN_DIRECT,
    TOP_STEAL,
    TOP_STEAL_DIRECT,
    TOP_REFAULT_FILE,
    TOP_REFAULT_ANON,
    TOP_FAULT,
    TOP_MAJOR_FAULT,
    TOP_SWAP_IN,
    TOP_SWAP_OUT,
    TOP_PAGE_IN,
    TOP_PAGE_OUT,
    TOP_COMPACT_STALL,
    TOP_OOM_KILL,
    N_TOP_COUNTERS,
};

// Names are as the kernel has them; the view cleans them.
struct top_process {
    int32_t pid;
    uint64_t start; // start time in ticks: a pid can be used again
    uint64_t rss;   // pages
    double growth;  // bytes a second, smoothed
    char name[TOP_NAME_MAX];
};
VEC_DEFINE(top_process_vec, struct top_process);

struct top_cgroup {
    char name[TOP_NAME_MAX];
    uint64_t bytes;
};

struct top_file {
    const char *path; // borrowed
    int fd;           // owned; -1: cannot be looked at
    uint64_t pages, cached;
    char error[TOP_NAME_MAX]; // "": none
};

// Reclaim by one task since the start.
struct top_task {
    int32_t pid;
    char name[17];
    uint64_t n;
    nsec_t took, longest;
    nsec_t began; // 0: the task does not reclaim now
};

struct top_reclaim; // top_reclaim.c

// All zero is empty. Roots are borrowed.
struct top_sampler {
    const char *proc, *cgroups;
    struct residency_probe *probe; // owned; made when the first file is looked at
    struct top_reclaim *reclaim;   // owned; NULL: not watched, because of `reclaim_error`
    char reclaim_error[160];

    nsec_t at, before;     // of the last two samples
    bool has_rates;        // there are two samples
    nsec_t processes_next; // the next reading of all processes, which takes the most time
    nsec_t processes_at;   // the last reading of all processes

    bool has_pressure;
    double some, full; // part of the last period in which tasks stalled, 0 to 1
    double some_avg10, full_avg10;
    uint64_t stall_some_us, stall_full_us;
    uint64_t counters[N_TOP_COUNTERS];
    double rates[N_TOP_COUNTERS]; // a second
    uint64_t total_kb, free_kb, available_kb, cached_kb, anon_kb, slab_kb, swap_total_kb,
        swap_free_kb;

    struct top_process_vec processes, old; // by pid
    size_t n_processes;                    // of the machine, also those without room in `processes`
    struct top_cgroup groups[TOP_CGROUPS_MAX];
    size_t n_groups;
    struct top_file files[TOP_FILES_MAX];
    size_t n_files;
};

int top_sampler_open(struct top_sampler *sampler, char *const *paths, size_t n, bool with_reclaim,
                     const struct log *log);
void top_sampler_done(struct top_sampler *sampler);
// Takes a sample. Values that cannot be read stay as they were.
void top_sample(struct top_sampler *sampler);

// -- reclaim by task --

// Watches reclaim by an instance of tracefs of our own, which needs root. Returns 0 or a negative
// errno with text.
int top_reclaim_open(const char *tracefs, const char *proc, const struct log *log,
                     struct top_reclaim **ret, struct err *err);
struct top_reclaim *top_reclaim_free(struct top_reclaim *reclaim);
// Reads the new events, up to a limit. If there are more, the rest is dropped, and
// top_reclaim_tasks() sets *ret_lost from then on.
void top_reclaim_read(struct top_reclaim *reclaim);
// Returns the tasks in no order, at most TOP_TASKS_MAX, borrowed until the next reading. *ret_lost:
// events were lost since the start.
const struct top_task *top_reclaim_tasks(const struct top_reclaim *reclaim, size_t *ret_n,
                                         bool *ret_lost);
// Takes one line of trace_pipe. Outside of top_reclaim.c, only tests call this function.
void top_reclaim_line(struct top_reclaim *reclaim, const char *line, size_t size);
struct top_reclaim *top_reclaim_new(void); // without a kernel, for tests

// -- the view --

enum top_look { TOP_PLAIN, TOP_TITLE, TOP_GOOD, TOP_WARN, TOP_BAD };
enum top_sort { TOP_BY_SIZE, TOP_BY_GROWTH, N_TOP_SORTS };

#define TOP_COLUMNS_MAX 240
#define TOP_ROWS_MAX    200
#define TOP_COLUMNS_MIN 40
#define TOP_ROWS_MIN    10

struct top_line {
    char text[TOP_COLUMNS_MAX + 1]; // ASCII
    enum top_look look;
};

struct top_view {
    enum top_sort sort;
    bool has_keys;      // the first line names the keys
    bool help;          // instead of the sections
    const char *record; // file that is recorded; NULL: none. Borrowed
};

// Fills at most `rows` lines of at most `columns` characters, and returns their number.
size_t top_view_lines(struct top_sampler *sampler, const struct top_view *view, size_t rows,
                      size_t columns, struct top_line *ret);
