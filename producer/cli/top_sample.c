// SPDX-License-Identifier: Apache-2.0
//
// A sample costs a few reads, and one read of /proc/PID/stat for each process. If the processes
// take long, they are read less often, so that the program stays below one percent of a processor.
// Memory is bounded: processes, cgroups and files beyond the limits are left out.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/cli/top.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/service/roots.h"
#include "producer/sources/residency/probe.h"

#define PROCESSES_MAX 32768
#define SHARE         200 // the processes take at most 1 / 200 of the time
#define SMOOTH        0.3 // part of the newest growth
#define GROUP_DEPTH   3
#define TEXT_BYTES    (64 << 10)

static const char *const counter_keys[N_TOP_COUNTERS] = {
    [TOP_SCAN_DIRECT] = "pgscan_direct ",
    [TOP_STEAL_DIRECT] = "pgsteal_direct ",
    [TOP_REFAULT_FILE] = "workingset_refault_file ",
    [TOP_REFAULT_ANON] = "workingset_refault_anon ",
    [TOP_FAULT] = "pgfault ",
    [TOP_MAJOR_FAULT] = "pgmajfault ",
    [TOP_SWAP_IN] = "pswpin ",
    [TOP_SWAP_OUT] = "pswpout ",
    [TOP_PAGE_IN] = "pgpgin ",
    [TOP_PAGE_OUT] = "pgpgout ",
    [TOP_COMPACT_STALL] = "compact_stall ",
    [TOP_OOM_KILL] = "oom_kill ",
};

static double per_second(uint64_t now, uint64_t then, nsec_t period)
{
    return now > then && period > 0 ? (double)(now - then) * 1e9 / (double)period : 0;
}

// Returns the pages that all reclaim scanned ("pgscan") or freed ("pgsteal"). The counters of
// kswapd and of tasks leave out reclaim in memory cgroups. Only kernels before 5.8 have no others.
static uint64_t reclaim_total(struct span text, const char *quantity)
{
    static const char *const kinds[] = {"anon",   "file",       "kswapd",
                                        "direct", "khugepaged", "proactive"};
    uint64_t sums[2] = {0};
    char key[32];
    for (size_t i = 0; i < ELEMENTS(kinds); i++) {
        snprintf(key, sizeof(key), "%s_%s ", quantity, kinds[i]);
        sums[i >= 2] += span_number_of(text, key);
    }
    return sums[0] ? sums[0] : sums[1];
}

static void take_vmstat(struct top_sampler *s, char *text, nsec_t period)
{
    struct span all = text_file_span(text, TEXT_BYTES, s->proc, "/vmstat");
    for (size_t i = 0; i < N_TOP_COUNTERS && span_size(all); i++) {
        uint64_t value = i == TOP_SCAN    ? reclaim_total(all, "pgscan")
                         : i == TOP_STEAL ? reclaim_total(all, "pgsteal")
                                          : span_number_of(all, counter_keys[i]);
        s->rates[i] = s->has_rates ? per_second(value, s->counters[i], period) : 0;
        s->counters[i] = value;
    }
}

static void take_meminfo(struct top_sampler *s, char *text)
{
    struct span all = text_file_span(text, TEXT_BYTES, s->proc, "/meminfo");
    const struct {
        const char *key;
        uint64_t *to;
    } rows[] = {
        {"MemTotal:", &s->total_kb},         {"MemFree:", &s->free_kb},
        {"MemAvailable:", &s->available_kb}, {"Cached:", &s->cached_kb},
        {"AnonPages:", &s->anon_kb},         {"Slab:", &s->slab_kb},
        {"SwapTotal:", &s->swap_total_kb},   {"SwapFree:", &s->swap_free_kb},
    };
    for (size_t i = 0; i < ELEMENTS(rows) && span_size(all); i++)
        *rows[i].to = span_number_of(all, rows[i].key);
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"
static bool take_stall(struct span text, const char *kind, double *ret_avg10, uint64_t *ret_us)
{
    struct span line, word;
    while (span_take_line(&text, &line)) {
        if (!span_take_word(&line, &word) || !span_eq(word, kind))
            continue;
        while (span_take_word(&line, &word)) {
            if (span_take_prefix(&word, "avg10="))
                *ret_avg10 = strtod(word.pos, NULL);
            else if (span_take_prefix(&word, "total="))
                str_scan_u64(&word.pos, word.end, ret_us);
        }
        return true;
    }
    return false;
}

static void take_pressure(struct top_sampler *s, char *text, nsec_t period)
{
    struct span all = text_file_span(text, TEXT_BYTES, s->proc, "/pressure/memory");
    uint64_t some = s->stall_some_us, full = s->stall_full_us;
    s->has_pressure = take_stall(all, "some", &s->some_avg10, &s->stall_some_us);
    take_stall(all, "full", &s->full_avg10, &s->stall_full_us);
    s->some = s->has_rates ? per_second(s->stall_some_us, some, period) / 1e6 : 0;
    s->full = s->has_rates ? per_second(s->stall_full_us, full, period) / 1e6 : 0;
}

// -- processes --

// Takes "PID (NAME) STATE ...": the name may have any bytes, so its end is the last parenthesis.
static bool process_take(const struct top_sampler *s, int32_t pid, struct top_process *ret)
{
    char text[1024];
    struct span all = process_file_span(text, sizeof(text), s->proc, pid, "stat"), word;
    const char *open = memchr(all.pos, '(', span_size(all)),
               *close = span_size(all) ? memrchr(all.pos, ')', span_size(all)) : NULL;
    if (!open || !close || close < open)
        return false;
    size_t size = (size_t)(close - open - 1);
    size = size < TOP_NAME_MAX - 1 ? size : TOP_NAME_MAX - 1;
    memcpy(ret->name, open + 1, size);
    ret->name[size] = '\0';
    ret->pid = pid;
    all.pos = close + 1;
    for (int field = 3; field <= 24; field++) {
        if (!span_take_word(&all, &word))
            return false;
        if (field == 22)
            str_scan_u64(&word.pos, word.end, &ret->start);
        else if (field == 24)
            str_scan_u64(&word.pos, word.end, &ret->rss);
    }
    return true;
}

static int by_pid(const void *left, const void *right)
{
    int32_t a = ((const struct top_process *)left)->pid,
            b = ((const struct top_process *)right)->pid;
    return a < b ? -1 : a > b;
}

// Computes the smoothed growth since the last reading. Both lists are in order of pid.
static void take_growth(struct top_sampler *s, nsec_t period)
{
    size_t k = 0;
    double page = (double)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < s->processes.n; i++) {
        struct top_process *now = &s->processes.items[i];
        while (k < s->old.n && s->old.items[k].pid < now->pid)
            k++;
        const struct top_process *then = k < s->old.n ? &s->old.items[k] : NULL;
        if (!then || then->pid != now->pid || then->start != now->start || period <= 0)
            continue;
        double change = ((double)now->rss - (double)then->rss) * page * 1e9 / (double)period;
        now->growth = then->growth * (1 - SMOOTH) + change * SMOOTH;
    }
}

static nsec_t own_time(void)
{
    return nsec_now(CLOCK_PROCESS_CPUTIME_ID);
}

static void take_processes(struct top_sampler *s)
{
    if (s->at < s->processes_next)
        return;
    nsec_t began = own_time();
    DIR *folder CLEANUP(closedirp) = opendir(s->proc);
    struct dirent *entry;
    struct top_process_vec old = s->old;
    s->old = s->processes;
    s->processes = old;
    top_process_vec_clear(&s->processes);
    s->n_processes = 0;
    while (folder && (entry = readdir(folder))) {
        struct top_process process = {0};
        uint32_t pid;
        if (str_parse_u32(entry->d_name, &pid) < 0 || pid > INT32_MAX)
            continue;
        s->n_processes++;
        if (s->processes.n < PROCESSES_MAX && process_take(s, (int32_t)pid, &process) &&
            process.rss > 0) // kernel threads have no memory of their own
            top_process_vec_push(&s->processes, process);
    }
    if (s->processes.n)
        qsort(s->processes.items, s->processes.n, sizeof(*s->processes.items), by_pid);
    take_growth(s, s->processes_at ? s->at - s->processes_at : 0);
    s->processes_at = s->at;
    s->processes_next = s->at + (own_time() - began) * SHARE;
}

// -- cgroups --

static void groups_walk(struct top_sampler *s, const char *name, int depth)
{
    static const char *const files[] = {"memory.current", "memory.usage_in_bytes"};
    char path[PATH_MAX], text[64];
    if (s->n_groups == TOP_CGROUPS_MAX)
        return;
    for (size_t i = 0; i < ELEMENTS(files) && *name; i++) {
        struct span span = text_file_span(text, sizeof(text), s->cgroups, "%s/%s", name, files[i]);
        struct top_cgroup *group = &s->groups[s->n_groups];
        if (!span_take_u64(&span, &group->bytes))
            continue;
        size_t size = strlen(name), cut = size < TOP_NAME_MAX ? 0 : size - TOP_NAME_MAX + 1;
        // The end of a long name tells more.
        snprintf(group->name, sizeof(group->name), "%s", name + cut);
        s->n_groups++;
        break;
    }
    if (depth == GROUP_DEPTH || snprintf(path, sizeof(path), "%s%s", s->cgroups, name) >= PATH_MAX)
        return;
    DIR *folder CLEANUP(closedirp) = opendir(path);
    struct dirent *entry;
    while (folder && s->n_groups < TOP_CGROUPS_MAX && (entry = readdir(folder))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", name, entry->d_name) < PATH_MAX)
            groups_walk(s, path, depth + 1);
    }
}

// -- files --

static void take_files(struct top_sampler *s)
{
    for (size_t i = 0; i < s->n_files; i++) {
        struct top_file *file = &s->files[i];
        struct residency_counts counts = {0};
        struct stat st;
        if (file->fd < 0 || fstat(file->fd, &st) < 0)
            continue;
        int r = residency_probe_counts(s->probe, file->fd,
                                       residency_pages(st.st_size, residency_page_size(s->probe)),
                                       &counts);
        snprintf(file->error, sizeof(file->error), "%s",
                 r == RESIDENCY_E_UNKNOWN ? "unknown: the file belongs to another user"
                 : r < 0                  ? strerror(-r)
                                          : "");
        file->pages = counts.pages;
        file->cached = counts.cached;
    }
}

static int files_open(struct top_sampler *s, char *const *paths, size_t n)
{
    int r = n ? residency_probe_new(RESIDENCY_AUTO, &s->probe) : 0;
    for (size_t i = 0; r == 0 && i < n && s->n_files < TOP_FILES_MAX; i++) {
        struct top_file *file = &s->files[s->n_files++];
        *file = (struct top_file){.path = paths[i], .fd = -1};
        int failed = residency_open(AT_FDCWD, paths[i], &file->fd, NULL);
        if (failed < 0)
            snprintf(file->error, sizeof(file->error), "%s",
                     failed == -EINVAL ? "not a regular file" : strerror(-failed));
    }
    return r;
}

// -- all --

int top_sampler_open(struct top_sampler *sampler, char *const *paths, size_t n, bool with_reclaim,
                     const struct log *log)
{
    struct err err = {0};
    if (!sampler->proc)
        sampler->proc = "/proc";
    if (!sampler->cgroups)
        sampler->cgroups = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0
                               ? "/sys/fs/cgroup"
                               : "/sys/fs/cgroup/memory";
    if (with_reclaim && geteuid() != 0) {
        snprintf(sampler->reclaim_error, sizeof(sampler->reclaim_error), "needs root");
    } else if (with_reclaim) {
        struct source_roots roots;
        source_roots_find(&roots);
        int r = roots.tracefs
                    ? top_reclaim_open(roots.tracefs, sampler->proc, log, &sampler->reclaim, &err)
                    : err_set(&err, -ENOENT, "tracefs is not mounted");
        if (r < 0)
            snprintf(sampler->reclaim_error, sizeof(sampler->reclaim_error), "%.150s", err.text);
    }
    return files_open(sampler, paths, n);
}

void top_sampler_done(struct top_sampler *sampler)
{
    sampler->reclaim = top_reclaim_free(sampler->reclaim);
    sampler->probe = residency_probe_free(sampler->probe);
    for (size_t i = 0; i < sampler->n_files; i++)
        sampler->files[i].fd = close_fd(sampler->files[i].fd);
    top_process_vec_done(&sampler->processes);
    top_process_vec_done(&sampler->old);
}

void top_sample(struct top_sampler *s)
{
    char *text CLEANUP(freep) = malloc(TEXT_BYTES);
    if (!text)
        return;
    s->before = s->at;
    s->at = nsec_now(CLOCK_MONOTONIC);
    s->has_rates = s->before > 0;
    nsec_t period = s->at - s->before;
    take_pressure(s, text, period);
    take_meminfo(s, text);
    take_vmstat(s, text, period);
    take_processes(s);
    s->n_groups = 0;
    groups_walk(s, "", 0);
    take_files(s);
    if (s->reclaim)
        top_reclaim_read(s->reclaim);
}
