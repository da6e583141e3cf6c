// SPDX-License-Identifier: Apache-2.0
//
// A look that finds the file unchanged prints nothing. If no page or all pages are resident, the
// look costs one cachestat(2). If there are few runs of resident pages, each run costs one more
// (see producer/sources/residency/look.h). Zips are indexed before the first look, without changing
// the cache, so that only the effects of other processes are seen.
//
// Files are opened for each look: a watch over a large folder must not use up all descriptors. The
// folder is searched again for new files, but for no more than a tenth of the time.
#include "producer/pintool/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/json.h"
#include "producer/pintool/report.h"
#include "producer/pintool/zip_source.h"
#include "producer/sources/residency/look.h"

#define RESCAN_PERIOD NSEC_PER_SEC
#define RESCAN_SHARE  10 // a search takes at most 1 / 10 of the time

struct watched {
    struct target target; // owned
    struct look_memory memory;
    struct stat st; // at the last look
    bool seen, gone, unknown;
    bool ignored; // not a zip, or no longer one
    bool was_indexed;
    struct zipindex zip;
    struct coverages entries; // name and place of each entry of the zip
};

VEC_DEFINE(watched_files, struct watched *);

struct watch {
    const struct file_options *options; // borrowed
    const struct watch_finder *finder;  // borrowed
    struct residency_probe *probe;      // borrowed
    struct look look;
    struct watched_files files; // owned, with the files themselves
    nsec_t now;                 // real time of the round
    nsec_t next_rescan;
};

// The bytes that came and went since the previous look.
struct change {
    struct page_ranges came, went;
};

static void change_done(struct change *change)
{
    page_ranges_done(&change->came);
    page_ranges_done(&change->went);
}

static void print_time(nsec_t now)
{
    time_t seconds = (time_t)(now / NSEC_PER_SEC);
    struct tm tm;
    char text[16] = "";
    if (localtime_r(&seconds, &tm))
        strftime(text, sizeof(text), "%H:%M:%S", &tm);
    printf("%s.%03d ", text, (int)(now % NSEC_PER_SEC / NSEC_PER_MSEC));
}

static void print_entry_changes(const struct watched *file, const char *what,
                                const struct page_ranges *ranges)
{
    CLEANUP(coverages_done) struct coverages found = {0};
    vec_foreach(&file->entries.items, item) {
        coverages_clear(&found);
        if (coverages_add(&found, &item->part, ranges) < 0)
            return;
        char name_text[REPORT_NAME_MAX];
        const char *name = found.pool.n ? report_name(name_text, item->part.name) : NULL;
        vec_foreach(&found.pool, range)
            printf("%s zip_offset=%" PRIu64 " file_offset=%" PRIu64 " total_bytes=%" PRIu64
                   " name=%s\n",
                   what, range->start, range->start - item->part.offset, range->end - range->start,
                   name);
    }
}

static void print_changes(const struct watched *file, bool zip, const char *what,
                          const struct page_ranges *ranges)
{
    if (zip) {
        print_entry_changes(file, what, ranges);
        return;
    }
    vec_foreach(ranges, range)
        printf("%s file_offset=%" PRIu64 " total_bytes=%" PRIu64 "\n", what, range->start,
               range->end - range->start);
}

static void json_changes(struct json *json, const struct watched *file, bool zip, const char *key,
                         const struct page_ranges *ranges)
{
    CLEANUP(coverages_done) struct coverages found = {0};
    struct part whole = {.size_bytes = UINT64_MAX};
    size_t n = zip ? file->entries.items.n : 1;
    json_array_begin(json, key);
    for (size_t i = 0; i < n; i++) {
        const struct part *part = zip ? &file->entries.items.items[i].part : &whole;
        coverages_clear(&found);
        if (coverages_add(&found, part, ranges) < 0)
            break;
        vec_foreach(&found.pool, range) {
            json_object_begin(json, NULL);
            if (zip) {
                json_text(json, "name", part->name);
                json_u64(json, "zip_offset", range->start);
            }
            json_u64(json, "file_offset", range->start - part->offset);
            json_u64(json, "bytes", range->end - range->start);
            json_object_end(json);
        }
    }
    json_array_end(json);
}

static void json_begin(struct json *json, const struct watch *watch, const struct watched *file)
{
    *json = (struct json){.out = stdout, .compact = true};
    json_object_begin(json, NULL);
    json_u64(json, "time_ms", (uint64_t)(watch->now / NSEC_PER_MSEC));
    json_text(json, "path", file->target.path);
}

// Prints the state of a file without other data: gone, unknown to this user, no zip, or an error.
static void print_state(const struct watch *watch, const struct watched *file, const char *state)
{
    if (watch->options->json) {
        struct json json;
        json_begin(&json, watch, file);
        json_text(&json, "state", state);
        json_object_end(&json);
        return;
    }
    char name_text[REPORT_NAME_MAX];
    const char *name = report_name(name_text, file->target.path);
    print_time(watch->now);
    printf("%s %s\n", name, state);
}

static void print_change(const struct watch *watch, const struct watched *file, uint64_t resident,
                         const struct change *change)
{
    uint64_t came = page_ranges_count(&change->came), went = page_ranges_count(&change->went);
    bool zip = watch->options->zip;
    if (watch->options->json) {
        struct json json;
        json_begin(&json, watch, file);
        json_u64(&json, "resident_bytes", resident);
        json_u64(&json, "came_bytes", came);
        json_u64(&json, "went_bytes", went);
        json_changes(&json, file, zip, "came", &change->came);
        json_changes(&json, file, zip, "went", &change->went);
        json_object_end(&json);
        return;
    }
    char name_text[REPORT_NAME_MAX];
    const char *name = report_name(name_text, file->target.path);
    print_time(watch->now);
    printf("%s resident(B)=%" PRIu64 " came(B)=%" PRIu64 " went(B)=%" PRIu64 "\n", name, resident,
           came, went);
    print_changes(file, zip, "came", &change->came);
    print_changes(file, zip, "went", &change->went);
}

// Prints the changes of a look that has found new runs, or the first runs.
static int report_runs(struct watch *watch, struct watched *file, uint64_t size_bytes)
{
    CLEANUP(change_done) struct change change = {0};
    CLEANUP(page_ranges_done) struct page_ranges differ = {0}, now = {0};
    uint64_t page_size = residency_page_size(watch->probe);
    const struct page_ranges *old = &file->memory.runs, *fresh = &watch->look.fresh;
    int r = 0;
    if (file->seen) {
        r = page_ranges_xor(old, fresh, &differ);
        if (r == 0)
            r = page_ranges_and(&differ, fresh, &change.came);
        if (r == 0)
            r = page_ranges_and(&differ, old, &change.went);
    }
    if (r == 0)
        r = page_ranges_and(fresh, fresh, &now);
    if (r < 0)
        return r;
    subject_pages_to_bytes(&now, page_size, size_bytes);
    subject_pages_to_bytes(&change.came, page_size, size_bytes);
    subject_pages_to_bytes(&change.went, page_size, UINT64_MAX); // the file may have shrunk
    if (!file->seen || change.came.n || change.went.n)
        print_change(watch, file, page_ranges_count(&now), &change);
    return 0;
}

static void forget(struct watched *file)
{
    look_memory_done(&file->memory);
    file->memory = (struct look_memory){0};
    file->seen = file->unknown = false;
}

static int index_entries(struct watch *watch, struct watched *file, int fd, uint64_t size_bytes,
                         struct err *err)
{
    zipindex_done(&file->zip);
    coverages_clear(&file->entries);
    int r = zip_source_index(watch->probe, fd, size_bytes, file->target.path, &file->zip, err);
    if (r < 0)
        return r;
    vec_foreach(&file->zip.entries, entry) {
        struct part part = {
            .name = entry->name, .offset = entry->offset, .size_bytes = entry->size_bytes};
        if (coverages_add(&file->entries, &part, NULL) < 0)
            return err_errno(err, -ENOMEM, "%s", file->target.path);
    }
    return 0;
}

// Indexes the zip again. A named file that is not a zip is an error at once. A former zip is not an
// error: another process may be writing the zip.
static int index_again(struct watch *watch, struct watched *file, int fd, uint64_t size_bytes,
                       struct err *err)
{
    struct err problem = {0};
    int r = index_entries(watch, file, fd, size_bytes, &problem);
    if (r == -ENOMEM || (r < 0 && file->target.named && !file->was_indexed)) {
        *err = problem;
        return r;
    }
    if (r < 0 && !file->ignored && file->was_indexed)
        print_state(watch, file, "no zip");
    file->ignored = r < 0;
    file->was_indexed |= r == 0;
    return 0;
}

static int look_once(struct watch *watch, struct watched *file, int fd, uint64_t size_bytes)
{
    static const struct look_options options = {.ranges = true, .verify_every = 1};
    uint64_t pages = residency_pages((int64_t)size_bytes, residency_page_size(watch->probe));
    enum look_result result =
        look_step(&watch->look, watch->probe, &options, &file->memory, fd, pages, 0, NSEC_MAX);
    int r = 0;
    if (result == LOOK_ERROR)
        return -watch->look.error;
    if (result == LOOK_UNKNOWN && !file->unknown)
        print_state(watch, file, "unknown");
    file->unknown = result == LOOK_UNKNOWN;
    if (result == LOOK_RUNS)
        r = report_runs(watch, file, size_bytes);
    file->seen |= result == LOOK_RUNS;
    look_remember(&watch->look, result, &file->memory);
    return r;
}

// Returns whether the name has another file now, or a zip whose entries may have moved.
static bool is_other(const struct watch *watch, const struct stat *old, const struct stat *new)
{
    if (old->st_ino != new->st_ino || old->st_dev != new->st_dev)
        return true;
    return watch->options->zip &&
           (old->st_size != new->st_size || old->st_mtim.tv_sec != new->st_mtim.tv_sec ||
            old->st_mtim.tv_nsec != new->st_mtim.tv_nsec);
}

static int watch_file(struct watch *watch, struct watched *file, struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    struct stat st;
    int r = target_open(&file->target, &fd, &st);
    if (r < 0) {
        if (!file->gone)
            print_state(watch, file, r == -ENOENT || r == -ESTALE ? "gone" : strerror(-r));
        file->gone = true;
        return 0;
    }
    if (file->gone || is_other(watch, &file->st, &st)) {
        forget(file);
        file->gone = false;
        r = watch->options->zip ? index_again(watch, file, fd, (uint64_t)st.st_size, err) : 0;
        if (r < 0)
            return r;
    }
    file->st = st;
    if (file->ignored)
        return 0;
    r = look_once(watch, file, fd, (uint64_t)st.st_size);
    return r < 0 ? err_errno(err, r, "%s", file->target.path) : 0;
}

// Rounds begin at fixed times, so that the cost of looks does not add up. Returns 1 on a signal.
static int wait_until(nsec_t when, const sigset_t *signals)
{
    for (;;) {
        nsec_t rest = when - nsec_now(CLOCK_MONOTONIC);
        if (rest < 0)
            rest = 0;
        struct timespec time = {.tv_sec = (time_t)(rest / NSEC_PER_SEC),
                                .tv_nsec = (long)(rest % NSEC_PER_SEC)};
        if (sigtimedwait(signals, NULL, &time) > 0)
            return 1;
        if (errno == EAGAIN)
            return 0;
    }
}

static struct watched *watched_free(struct watched *file)
{
    if (file) {
        target_done(&file->target);
        look_memory_done(&file->memory);
        zipindex_done(&file->zip);
        coverages_done(&file->entries);
    }
    free(file);
    return NULL;
}

// Takes over the target.
static int file_add(struct watch *watch, struct target *target)
{
    struct watched *file = calloc(1, sizeof(*file));
    if (!file)
        return -ENOMEM;
    file->target = *target;
    *target = (struct target){0};
    if (watched_files_push(&watch->files, file) == 0)
        return 0;
    watched_free(file);
    return -ENOMEM;
}

// Returns the id that the set gives to the target's inode and path, or STRSET_NONE. With `add`,
// puts them into the set.
static uint32_t key_of(struct strset *set, const struct target *target, bool add)
{
    CLEANUP(strbuf_done) struct strbuf key = {0};
    strbuf_addf(&key, "%" PRIu64 " %s", target->inode, target->path);
    if (!key.text)
        return STRSET_NONE;
    return add ? strset_add(set, key.text, key.size) : strset_find(set, key.text, key.size);
}

// Removes files that were found in folders and no longer exist. Clears the entries of `found` that
// are watched already. A named file stays, because the file may come back.
static void files_sweep(struct watch *watch, struct strset *set, struct target **found)
{
    size_t n = 0;
    vec_foreach(&watch->files, at) {
        struct watched *file = *at;
        uint32_t id = key_of(set, &file->target, false);
        if (id != STRSET_NONE)
            found[id] = NULL;
        if (id != STRSET_NONE || file->target.named) {
            watch->files.items[n++] = file;
            continue;
        }
        if (!file->gone)
            print_state(watch, file, file->target.by_process ? "unmapped" : "gone");
        watched_free(file);
    }
    watch->files.n = n;
}

static int files_merge(struct watch *watch, struct targets *targets)
{
    struct strset set = {0};
    int r = 0;
    struct target **found = calloc(targets->items.n + 1, sizeof(struct target *));
    if (!found)
        return -ENOMEM;
    vec_foreach(&targets->items, target) {
        uint32_t id = key_of(&set, target, true);
        if (id == STRSET_NONE)
            r = -ENOMEM;
        else if (!found[id])
            found[id] = target;
    }
    if (r == 0)
        files_sweep(watch, &set, found);
    for (size_t i = 0; i < targets->items.n && r == 0; i++)
        if (found[i])
            r = file_add(watch, found[i]);
    strset_done(&set);
    free(found);
    return r;
}

static int rescan(struct watch *watch, struct err *err)
{
    CLEANUP(targets_done) struct targets targets = {0};
    nsec_t start = nsec_now(CLOCK_MONOTONIC);
    int r = watch->finder->find(watch->finder->userdata, &targets, err);
    if (r == 0 && files_merge(watch, &targets) < 0)
        r = err_errno(err, -ENOMEM, "the list of files");
    nsec_t end = nsec_now(CLOCK_MONOTONIC), pause = (end - start) * RESCAN_SHARE;
    watch->next_rescan = end + (pause > RESCAN_PERIOD ? pause : RESCAN_PERIOD);
    return r;
}

// Returns -ENOENT or -ESRCH if nothing is left to watch.
static int watch_round(struct watch *watch, struct err *err)
{
    watch->now = nsec_now(CLOCK_REALTIME);
    int r = nsec_now(CLOCK_MONOTONIC) >= watch->next_rescan ? rescan(watch, err) : 0;
    for (size_t i = 0; i < watch->files.n && r == 0; i++)
        r = watch_file(watch, watch->files.items[i], err);
    return r;
}

static int watch_loop(struct watch *watch, const sigset_t *signals, struct err *err)
{
    nsec_t next = nsec_now(CLOCK_MONOTONIC);
    watch->next_rescan = next + RESCAN_PERIOD;
    for (uint64_t round = 1;; round++) {
        int r = watch_round(watch, err);
        if (r < 0)
            return r == -ENOENT || r == -ESRCH ? 0 : r;
        if (fflush(stdout) != 0)
            return 0; // the reader of the output is gone; the caller reports that
        if (round == watch->options->watch_times)
            return 0;
        next += watch->options->watch;
        nsec_t now = nsec_now(CLOCK_MONOTONIC);
        if (next < now) // a round took longer than the period
            next = now;
        if (wait_until(next, signals))
            return 0;
    }
}

int watch_run(struct targets *targets, const struct watch_finder *finder,
              const struct file_options *options, struct residency_probe *probe, struct err *err)
{
    struct watch watch = {.options = options, .finder = finder, .probe = probe};
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int r = files_merge(&watch, targets);
    r = r < 0 ? err_errno(err, r, "the list of files") : watch_loop(&watch, &signals, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    vec_foreach(&watch.files, file)
        watched_free(*file);
    watched_files_done(&watch.files);
    look_done(&watch.look);
    return r;
}
