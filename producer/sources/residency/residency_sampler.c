// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of work share the loop with other sources: rounds (a look at every file, once per
// period) and scans (finding the files). Both are cut into slices of a millisecond with pauses in
// between, and a look at one large file can itself be interrupted: no other source is delayed. A
// round has priority over a scan. A scan only appends files: a round may run during a scan. Files
// are removed only when no round is in progress.
//
// The knowledge of readers is tracked per file: whether the file was introduced, and whether the
// chain of differences is complete. Whenever a packet was refused, the next sample with runs is
// complete.
#include "producer/sources/source.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/page_runs.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/residency/file_set.h"
#include "producer/sources/residency/look.h"
#include "producer/sources/residency/probe.h"
#include "producer/sources/residency/residency_packets.h"

#define PERIOD_MS        1000
#define RESCAN_PERIOD_MS 10000
#define MAX_FILES        4096
#define MAX_FILES_LIMIT  (1u << 20)
#define MAX_DIFFERENCES  16
#define VERIFY_EVERY     8
#define SLICE            NSEC_PER_MSEC
#define PAUSE            (NSEC_PER_MSEC / 4)
#define RESCAN_PAUSE     NSEC_PER_SEC // after files were deleted
#define TIDY_PERIOD      (30 * NSEC_PER_SEC)
// Others wait meanwhile. The samplers of a user who is not root share the time.
#define START_SCAN_MAX    (100 * NSEC_PER_MSEC)
#define FLUSH_MAX         (200 * NSEC_PER_MSEC)
#define STOP_MAX          NSEC_PER_SEC
#define LIST_PART_OF_RING 8 // one list of runs takes at most 1 / 8 of the buffer

// The data of one residency_file (its `user`).
struct watched {
    struct look_memory memory;
    uint64_t revision;
    uint32_t n_differences; // since the last complete list
    bool introduced, has_track;
    bool chain_whole; // readers have the runs of `memory`
    bool told;        // readers have the counts, or the state below
    enum look_result told_result;
    int told_error;
    uint64_t told_bytes; // last value of the counter track
    bool told_counter;
};

struct sampler {
    struct source_env env;
    struct look_options options;
    bool counter_tracks;
    uint32_t max_differences;
    nsec_t period, rescan_period;
    size_t list_bytes_max;

    struct residency_probe *probe; // owned
    struct file_set *files;        // owned
    struct look look;
    struct page_ranges difference; // owned

    struct loop_timer *tick_timer, *rescan_timer, *work_timer, *tidy_timer; // owned
    bool in_round, in_scan, in_look, sweep_due, started;
    bool long_list_logged, unknown_logged;
    size_t position; // of the round, in the files
    int look_fd;     // borrowed, or to be released with file_set_release()
    nsec_t round_started, scan_ended;
    uint32_t n_changed;
    uint32_t n_missed; // missed rounds since the last written round
    uint64_t n_samples, n_lost;
    uint64_t n_left_out; // looks that a flush or the end had no time for
};

static struct residency_file_info info_of(const struct sampler *sampler,
                                          const struct residency_file *file)
{
    return (struct residency_file_info){
        .id = file->id,
        .path = file->path,
        .device = file->device,
        .inode = file->inode,
        .page_size_bytes = (uint32_t)residency_page_size(sampler->probe),
    };
}

static bool introduce(struct sampler *sampler, const struct residency_file *file,
                      struct watched *watched)
{
    if (watched->introduced)
        return true;
    struct residency_file_info info = info_of(sampler, file);
    watched->introduced = packets_write_file(sampler->env.writer, sampler->look.started, &info);
    watched->chain_whole = watched->told = watched->told_counter = watched->has_track = false;
    return watched->introduced;
}

static void write_counter(struct sampler *sampler, const struct residency_file *file,
                          struct watched *watched)
{
    uint64_t bytes = watched->memory.counts.cached * residency_page_size(sampler->probe);
    if (!sampler->counter_tracks || (watched->told_counter && watched->told_bytes == bytes))
        return;
    struct residency_file_info info = info_of(sampler, file);
    if (!watched->has_track)
        watched->has_track = packets_write_track(sampler->env.writer, &info);
    if (!watched->has_track)
        return;
    watched->told_counter =
        packets_write_counter(sampler->env.writer, sampler->look.started, &info, bytes);
    watched->told_bytes = bytes;
}

static bool write_sample(struct sampler *sampler, struct residency_sample *sample,
                         const struct residency_file *file, struct watched *watched)
{
    sample->file_id = file->id;
    sample->counts = sampler->look.counts;
    sample->timestamp = sampler->look.started;
    sample->duration = nsec_now(CLOCK_BOOTTIME) - sampler->look.started;
    watched->told = packets_write_sample(sampler->env.writer, sample);
    sampler->n_changed++;
    sampler->n_samples += watched->told;
    sampler->n_lost += !watched->told;
    return watched->told;
}

// Writes the runs in watched->memory. `difference` (NULL: unknown) leads to these runs from the
// readers' state.
static void tell_runs(struct sampler *sampler, const struct residency_file *file,
                      struct watched *watched, const struct page_ranges *difference)
{
    struct residency_sample sample = {.kind = SAMPLE_COMPLETE, .runs = &watched->memory.runs};
    if (watched->chain_whole && difference && watched->n_differences < sampler->max_differences &&
        page_runs_size(difference) <= page_runs_size(&watched->memory.runs)) {
        sample.kind = SAMPLE_CHANGED;
        sample.runs = difference;
    }
    sample.revision = ++watched->revision;
    watched->chain_whole = write_sample(sampler, &sample, file, watched);
    watched->n_differences = sample.kind == SAMPLE_CHANGED ? watched->n_differences + 1 : 0;
}

// Returns whether a list would displace everything else in the buffer. The caller then writes only
// its counts.
static bool is_too_long(struct sampler *sampler, const struct residency_file *file,
                        const struct page_ranges *runs)
{
    if (page_runs_size(runs) <= sampler->list_bytes_max)
        return false;
    if (!sampler->long_list_logged)
        log_warning(sampler->env.log,
                    "linux.page_residency: %s: %zu runs take too much of the buffer: only counts "
                    "are recorded (enlarge the buffer)",
                    file->path, runs->n);
    sampler->long_list_logged = true;
    return true;
}

static void tell_counts(struct sampler *sampler, const struct residency_file *file,
                        struct watched *watched, bool chained)
{
    struct residency_sample sample = {.kind = SAMPLE_COUNTS, .chained = chained};
    write_sample(sampler, &sample, file, watched);
    if (chained)
        watched->n_differences++;
}

// Writes UNKNOWN and ERROR when they begin.
static void tell_state(struct sampler *sampler, const struct residency_file *file,
                       struct watched *watched, enum look_result result)
{
    int error = result == LOOK_ERROR ? sampler->look.error : 0;
    if (watched->told && watched->told_result == result && watched->told_error == error)
        return;
    struct residency_sample sample = {
        .kind = result == LOOK_ERROR ? SAMPLE_ERROR : SAMPLE_UNKNOWN,
        .error = error,
    };
    write_sample(sampler, &sample, file, watched);
    watched->told_error = error;
    watched->chain_whole = false;
    if (result == LOOK_UNKNOWN && !sampler->unknown_logged)
        log_warning(sampler->env.log,
                    "linux.page_residency: %s: the kernel tells its residency only to owners and "
                    "writers (run as root); there may be more such files",
                    file->path);
    sampler->unknown_logged |= result == LOOK_UNKNOWN;
}

// Returns whether two results mean the same to a reader: runs, or only counts.
static bool is_same_kind(enum look_result a, enum look_result b)
{
    return a == b || (a == LOOK_SAME && b == LOOK_RUNS) || (a == LOOK_RUNS && b == LOOK_SAME);
}

// Returns the difference from the remembered runs to the new runs, or NULL if the difference is
// unknown.
static const struct page_ranges *
difference_to(struct sampler *sampler, const struct watched *watched, enum look_result result)
{
    page_ranges_clear(&sampler->difference);
    if (result == LOOK_SAME)
        return &sampler->difference;
    if (result != LOOK_RUNS || !watched->memory.has_runs || !watched->chain_whole)
        return NULL;
    int r = page_ranges_xor(&watched->memory.runs, &sampler->look.fresh, &sampler->difference);
    return r < 0 ? NULL : &sampler->difference;
}

static void finish_look(struct sampler *sampler, const struct residency_file *file,
                        enum look_result result)
{
    struct watched *watched = file->user;
    struct look *look = &sampler->look;
    if (!introduce(sampler, file, watched)) {
        sampler->n_lost++;
        look_remember(look, result, &watched->memory);
        return;
    }
    if (result == LOOK_UNKNOWN || result == LOOK_ERROR) {
        look_remember(look, result, &watched->memory);
        tell_state(sampler, file, watched, result);
        watched->told_result = result;
        return;
    }
    if (result == LOOK_RUNS && is_too_long(sampler, file, &look->fresh)) {
        watched->memory.has_runs = watched->chain_whole = false;
        result = LOOK_COUNTS;
    }
    bool told_alike = watched->told && look_counts_equal(&look->counts, &watched->memory.counts) &&
                      is_same_kind(watched->told_result, result);
    const struct page_ranges *difference = difference_to(sampler, watched, result);
    look_remember(look, result, &watched->memory);
    if (result == LOOK_COUNTS) {
        if (!told_alike)
            tell_counts(sampler, file, watched, watched->memory.has_runs);
    } else if (!told_alike || !watched->chain_whole || !difference || difference->n ||
               watched->n_differences > sampler->max_differences) {
        tell_runs(sampler, file, watched, difference);
    }
    watched->told_result = result;
    write_counter(sampler, file, watched);
}

static void write_gone(struct sampler *sampler, struct residency_file *file)
{
    struct watched *watched = file->user;
    struct residency_file_info info = info_of(sampler, file);
    if (watched && watched->introduced)
        packets_write_gone(sampler->env.writer, nsec_now(CLOCK_BOOTTIME), &info,
                           watched->has_track);
}

static void forget_file(void *userdata, struct residency_file *file)
{
    struct sampler *sampler = userdata;
    struct watched *watched = file->user;
    if (!watched)
        return;
    if (sampler->started)
        write_gone(sampler, file);
    look_memory_done(&watched->memory);
    free(watched);
    file->user = NULL;
}

// Notes that a file is gone. Another file may have taken its name. Therefore a scan follows soon,
// but at least RESCAN_PAUSE after the last scan.
static void note_gone(struct sampler *sampler, struct residency_file *file)
{
    file->gone = sampler->sweep_due = true;
    nsec_t now = nsec_now(CLOCK_BOOTTIME), soon = sampler->scan_ended + RESCAN_PAUSE;
    if (!sampler->in_scan && sampler->rescan_timer)
        loop_set_timer(sampler->rescan_timer, soon > now ? soon : now, sampler->rescan_period);
}

// Gets the size at the beginning of a look. Returns false if the file is gone or cannot be read.
static bool begin_look(struct sampler *sampler, struct residency_file *file, uint64_t *ret_pages)
{
    struct stat st;
    sampler->look.started = nsec_now(CLOCK_BOOTTIME);
    int r = file_set_acquire(sampler->files, file, &sampler->look_fd);
    if (r == -ENOENT || r == -ESTALE || r == -ENOTDIR || r == -ESRCH) {
        note_gone(sampler, file);
        return false;
    }
    if (process_file_is_late(r)) // the state of the last look stays
        return false;
    if (r == 0 && fstat(sampler->look_fd, &st) < 0) {
        r = -errno;
        file_set_release(sampler->files, file, sampler->look_fd);
    }
    if (r < 0) {
        sampler->look.error = -r;
        finish_look(sampler, file, LOOK_ERROR);
        return false;
    }
    if (st.st_nlink == 0 && file->by_path && !file->by_process) {
        file_set_release(sampler->files, file, sampler->look_fd);
        note_gone(sampler, file);
        return false;
    }
    *ret_pages = residency_pages(st.st_size, residency_page_size(sampler->probe));
    sampler->in_look = true;
    return true;
}

// Returns false if the deadline has passed in the middle of this file.
static bool look_at(struct sampler *sampler, struct residency_file *file, nsec_t deadline)
{
    if (!file->user && !(file->user = calloc(1, sizeof(struct watched))))
        return true; // tried again in the next round
    struct watched *watched = file->user;
    uint64_t pages = 0;
    if (!sampler->in_look && (file->gone || !begin_look(sampler, file, &pages)))
        return true;
    enum look_result result =
        look_step(&sampler->look, sampler->probe, &sampler->options, &watched->memory,
                  sampler->look_fd, pages, file->id, deadline);
    if (result == LOOK_AGAIN)
        return false;
    sampler->in_look = false;
    file_set_release(sampler->files, file, sampler->look_fd);
    finish_look(sampler, file, result);
    return true;
}

static void sweep(struct sampler *sampler)
{
    sampler->sweep_due = false;
    file_set_sweep(sampler->files, forget_file, sampler);
}

// Returns false if there is more to do.
static bool continue_round(struct sampler *sampler, nsec_t deadline)
{
    const struct residency_files *files = file_set_files(sampler->files);
    while (sampler->position < files->n) {
        if (!look_at(sampler, files->items[sampler->position], deadline))
            return false;
        sampler->position++;
        if (sampler->position < files->n && nsec_now(CLOCK_MONOTONIC) >= deadline)
            return false;
    }
    sampler->in_round = false;
    file_set_looked(sampler->files);
    if (packets_write_round(sampler->env.writer, sampler->round_started,
                            nsec_now(CLOCK_BOOTTIME) - sampler->round_started, (uint32_t)files->n,
                            sampler->n_changed, sampler->n_missed))
        sampler->n_missed = 0;
    return true;
}

static void begin_round(struct sampler *sampler)
{
    sampler->in_round = true;
    sampler->position = 0;
    sampler->n_changed = 0;
    sampler->round_started = nsec_now(CLOCK_BOOTTIME);
}

static void continue_scan(struct sampler *sampler, nsec_t deadline)
{
    int r = file_set_scan(sampler->files, deadline);
    if (r == FILE_SET_E_AGAIN)
        return;
    sampler->in_scan = false;
    sampler->sweep_due = true;
    sampler->scan_ended = nsec_now(CLOCK_BOOTTIME);
    if (r < 0)
        log_warning(sampler->env.log, "linux.page_residency: search for files: %s", strerror(-r));
}

static nsec_t pause_of(const struct sampler *sampler)
{
    nsec_t wait = file_set_resumes(sampler->files) - nsec_now(CLOCK_MONOTONIC);
    return sampler->in_round || wait < PAUSE ? PAUSE : wait;
}

// Works until `deadline`, on rounds first.
static void work(struct sampler *sampler, nsec_t deadline)
{
    bool in_time = !sampler->in_round || continue_round(sampler, deadline);
    if (in_time && sampler->in_scan && nsec_now(CLOCK_MONOTONIC) < deadline)
        continue_scan(sampler, deadline);
    if (!sampler->in_round && sampler->sweep_due)
        sweep(sampler);
    if (sampler->in_round || sampler->in_scan)
        loop_set_timer(sampler->work_timer, nsec_now(CLOCK_BOOTTIME) + pause_of(sampler), 0);
}

static void on_work(void *userdata)
{
    work(userdata, nsec_now(CLOCK_MONOTONIC) + SLICE);
}

static void on_tick(void *userdata)
{
    struct sampler *sampler = userdata;
    sampler->n_missed += (uint32_t)source_missed(&sampler->env);
    if (sampler->in_round) {
        sampler->n_missed++;
        return;
    }
    begin_round(sampler);
    work(sampler, nsec_now(CLOCK_MONOTONIC) + SLICE);
}

static void on_rescan(void *userdata)
{
    struct sampler *sampler = userdata;
    if (sampler->in_scan)
        return;
    sampler->in_scan = true;
    work(sampler, nsec_now(CLOCK_MONOTONIC) + SLICE);
}

// With long periods, nothing else gives up mounts in time.
static void on_tidy(void *userdata)
{
    struct sampler *sampler = userdata;
    file_set_looked(sampler->files);
}

static nsec_t deadline_of_share(const struct sampler *sampler, nsec_t most)
{
    return nsec_now(CLOCK_MONOTONIC) + most / (nsec_t)file_set_peers(sampler->files);
}

// Does a whole round, within the share of `most`. The files that are left out are counted.
static void sample_now(struct sampler *sampler, nsec_t most)
{
    nsec_t deadline = deadline_of_share(sampler, most);
    bool in_time = !sampler->in_round || continue_round(sampler, deadline);
    if (in_time) {
        begin_round(sampler);
        in_time = continue_round(sampler, deadline);
    }
    if (!in_time)
        sampler->n_left_out += file_set_files(sampler->files)->n - sampler->position;
}

static void page_residency_flush(struct source *source)
{
    struct sampler *sampler = (struct sampler *)source;
    sample_now(sampler, FLUSH_MAX);
    work(sampler, 0);
}

static void remove_timers(struct sampler *sampler)
{
    sampler->tick_timer = loop_remove_timer(sampler->tick_timer);
    sampler->rescan_timer = loop_remove_timer(sampler->rescan_timer);
    sampler->work_timer = loop_remove_timer(sampler->work_timer);
    sampler->tidy_timer = loop_remove_timer(sampler->tidy_timer);
}

static void end_look(struct sampler *sampler)
{
    const struct residency_files *files = file_set_files(sampler->files);
    if (sampler->in_look && sampler->position < files->n)
        file_set_release(sampler->files, files->items[sampler->position], sampler->look_fd);
    sampler->in_look = false;
    look_cancel(&sampler->look);
}

static void page_residency_stop(struct source *source)
{
    struct sampler *sampler = (struct sampler *)source;
    remove_timers(sampler);
    sample_now(sampler, STOP_MAX);
    end_look(sampler);
    file_set_end_scan(sampler->files);
    if (sampler->scan_ended == 0) // files that were not found were not looked at
        sampler->n_left_out++;
    sampler->started = false;
}

static void page_residency_clear_state(struct source *source)
{
    struct sampler *sampler = (struct sampler *)source;
    if (!sampler->started)
        return;
    packet_writer_clear_state(sampler->env.writer);
    vec_foreach(file_set_files(sampler->files), file) {
        struct watched *watched = (*file)->user;
        if (watched)
            watched->introduced = false;
    }
    // Readers have nothing until the next look: look now, from the first file on.
    end_look(sampler);
    begin_round(sampler);
    loop_set_timer(sampler->work_timer, nsec_now(CLOCK_BOOTTIME), 0);
}

static int page_residency_start(struct source *source, struct err *err)
{
    struct sampler *sampler = (struct sampler *)source;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    int r = source_add_timer(&sampler->env, now, sampler->period, on_tick, sampler,
                             &sampler->tick_timer);
    if (r == 0)
        r = source_add_timer(&sampler->env, now + sampler->rescan_period, sampler->rescan_period,
                             on_rescan, sampler, &sampler->rescan_timer);
    if (r == 0)
        r = source_add_timer(&sampler->env, now + TIDY_PERIOD, TIDY_PERIOD, on_tidy, sampler,
                             &sampler->tidy_timer);
    if (r == 0)
        r = source_add_timer(&sampler->env, NSEC_MAX, 0, on_work, sampler, &sampler->work_timer);
    if (r < 0)
        return err_errno(err, r, "timers");
    sampler->started = true;
    packet_writer_clear_state(sampler->env.writer);
    sampler->in_scan = true;
    continue_scan(sampler, deadline_of_share(sampler, START_SCAN_MAX));
    if (!sampler->in_scan && !file_set_files(sampler->files)->n)
        log_warning(sampler->env.log,
                    "linux.page_residency: no file found yet; the search is repeated every %.3g s",
                    (double)sampler->rescan_period / NSEC_PER_SEC);
    return 0;
}

static void page_residency_counts(const struct source *source, struct source_counts *ret)
{
    const struct sampler *sampler = (const struct sampler *)source;
    ret->events = sampler->n_samples;
    ret->events_lost = sampler->n_lost;
    ret->readings_missed = sampler->n_left_out;
}

static struct source *page_residency_close(struct source *source)
{
    if (!source)
        return NULL;
    struct sampler *sampler = (struct sampler *)source;
    int saved = errno;
    remove_timers(sampler);
    sampler->started = false;
    if (sampler->files) {
        end_look(sampler);
        vec_foreach(file_set_files(sampler->files), file)
            forget_file(sampler, *file);
    }
    file_set_free(sampler->files);
    residency_probe_free(sampler->probe);
    look_done(&sampler->look);
    page_ranges_done(&sampler->difference);
    free(sampler);
    errno = saved;
    return NULL;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static int open_files(struct sampler *sampler, const Pb__PageResidencyConfig *config,
                      struct err *err)
{
    uint32_t max_files = or_default(config->max_files, MAX_FILES);
    const struct file_set_options options = {
        .paths = config->paths,
        .n_paths = config->n_paths,
        .pids = config->pids,
        .n_pids = config->n_pids,
        .cmdlines = config->process_cmdlines,
        .n_cmdlines = config->n_process_cmdlines,
        .min_size_bytes = config->min_file_size_bytes,
        .max_files = max_files < MAX_FILES_LIMIT ? max_files : MAX_FILES_LIMIT,
        .proc = sampler->env.roots->proc,
        .log = sampler->env.log,
        .requester = sampler->env.requester,
        .foreign = sampler->env.roots->foreign,
    };
    return file_set_new(&options, &sampler->files, err);
}

static void read_config(struct sampler *sampler, const Pb__PageResidencyConfig *config)
{
    sampler->period = or_default(config->period_ms, PERIOD_MS) * NSEC_PER_MSEC;
    sampler->rescan_period = or_default(config->rescan_period_ms, RESCAN_PERIOD_MS) * NSEC_PER_MSEC;
    sampler->max_differences = or_default(config->max_differences, MAX_DIFFERENCES);
    sampler->options.verify_every = or_default(config->verify_every, VERIFY_EVERY);
    sampler->options.ranges = config->detail != PB__PAGE_RESIDENCY_CONFIG__DETAIL__DETAIL_COUNTS;
    sampler->counter_tracks = !config->disable_counter_tracks;
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(sampler->env.writer->buffer, &stats);
    sampler->list_bytes_max = (size_t)stats.size_bytes / LIST_PART_OF_RING;
}

static int page_residency_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                               struct source **ret, struct err *err)
{
    const Pb__PageResidencyConfig *what = config->page_residency_config;
    if (!what || (!what->n_paths && !what->n_pids && !what->n_process_cmdlines))
        return err_set(err, -EINVAL,
                       "linux.page_residency: page_residency_config names no paths, pids or "
                       "process_cmdlines");
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return err_errno(err, -ENOMEM, "state");
    sampler->env = *env;
    read_config(sampler, what);
    int r = residency_probe_new(RESIDENCY_AUTO, &sampler->probe);
    if (r < 0)
        err_errno(err, r, "state");
    else
        r = open_files(sampler, what, err);
    if (r < 0) {
        page_residency_close((struct source *)sampler);
        return r;
    }
    if (!residency_has_cachestat(sampler->probe))
        log_info(env->log, "linux.page_residency: no cachestat (kernel 6.5): dirty and evicted "
                           "pages are not counted, and looking costs more");
    *ret = (struct source *)sampler;
    return 0;
}

const struct source_class residency_class = {
    .name = "linux.page_residency",
    .summary = "which pages of which files are in the page cache",
    .config = SOURCE_CONFIG(page_residency_config),
    .open = page_residency_open,
    .start = page_residency_start,
    .flush = page_residency_flush,
    .stop = page_residency_stop,
    .close = page_residency_close,
    .counts = page_residency_counts,
    .clear_state = page_residency_clear_state,
};
