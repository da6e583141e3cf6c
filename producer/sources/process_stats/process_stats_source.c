// SPDX-License-Identifier: Apache-2.0
//
// Connects names and counters of processes to a session. Other sources publish the thread ids that
// they meet. The ids are queued here and looked up in batches from the loop: /proc never delays the
// reading of ftrace. Ids that do not fit into the queue will be published again.
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/memory.h"
#include "producer/sources/process_stats/internal.h"

#define N_BATCH        64
#define N_FDS_KEPT_MAX 4096
#define ENDED_AGAIN    (NSEC_PER_SEC / 10)

static void look_up_batch(struct process_stats *ps, size_t n_max)
{
    ps->scan_time = nsec_now(CLOCK_BOOTTIME);
    ended_write_freed(ps); // first: the ids may have new owners
    size_t n = ps->n_pending < n_max ? ps->n_pending : n_max;
    for (size_t i = 0; i < n; i++)
        tree_look_up(ps, ps->pending[i]);
    ps->n_pending -= n;
    memmove(ps->pending, ps->pending + n, ps->n_pending * sizeof(ps->pending[0]));
    process_end_orphans(ps);
    process_sweep(ps);
    ended_write(ps, false);
}

static void drain(void *userdata)
{
    struct process_stats *ps = userdata;
    look_up_batch(ps, N_BATCH);
    if (ps->n_pending)
        loop_set_timer(ps->drainer, nsec_now(CLOCK_BOOTTIME), 0); // other work comes first
    else if (ps->n_ended) {
        nsec_t again = ps->scan_time + ENDED_AGAIN; // a source of exits may be late
        loop_set_timer(ps->drainer, ps->ended[0].due > again ? ps->ended[0].due : again, 0);
    }
}

static void pid_seen(void *userdata, int32_t pid)
{
    struct process_stats *ps = userdata;
    const struct process *process = process_find(ps, pid);
    const uint64_t *mark = map64_find(&ps->threads, (uint64_t)pid);
    if (process ? process->written : mark && process_of_mark(ps, *mark))
        return;
    if (ps->n_pending == N_PENDING_MAX) {
        ps->env.pids->recent[(uint32_t)pid % PID_FEED_CACHE] = 0;
        return;
    }
    ps->pending[ps->n_pending++] = pid;
    ended_note_seen(ps, pid);
    if (ps->n_pending == 1)
        loop_set_timer(ps->drainer, nsec_now(CLOCK_BOOTTIME), 0);
}

static void pid_changed(void *userdata, int32_t pid, bool executed)
{
    struct process_stats *ps = userdata;
    struct process *process = process_find(ps, pid);
    if (process) {
        process->written = false;
        process->executed |= executed;
    }
    uint64_t *mark = map64_find(&ps->threads, (uint64_t)pid);
    if (mark)
        *mark |= MARK_STALE;
}

static void task_exited(void *userdata, const struct task_end *end)
{
    struct process_stats *ps = userdata;
    ended_note_exit(ps, end);
    if (ps->n_ended && !ps->n_pending)
        loop_set_timer(ps->drainer, nsec_now(CLOCK_BOOTTIME), 0); // perhaps of an ended task
}

static void task_freed(void *userdata, const struct task_end *end)
{
    struct process_stats *ps = userdata;
    size_t n = ps->n_freed;
    ended_note_free(ps, end);
    if (ps->n_freed > n && !ps->n_pending)
        loop_set_timer(ps->drainer, nsec_now(CLOCK_BOOTTIME), 0);
}

static void poll(void *userdata)
{
    struct process_stats *ps = userdata;
    ps->n_missed += source_missed(&ps->env);
    poll_all(ps);
    if (ps->n_ended && ps->drainer && !ps->n_pending)
        loop_set_timer(ps->drainer, nsec_now(CLOCK_BOOTTIME), 0);
}

static bool has_quirk(const Pb__ProcessStatsConfig *config, Pb__ProcessStatsConfig__Quirks quirk)
{
    for (size_t i = 0; i < config->n_quirks; i++)
        if (config->quirks[i] == quirk)
            return true;
    return false;
}

// Returns true if the kernel has /proc/self/FILE.
static bool has_own_file(const struct process_stats *ps, const char *field, const char *file)
{
    struct text_file opened;
    int r = text_file_open(&opened, 0, ps->env.roots->proc, "/self/%s", file);
    text_file_close(&opened);
    if (r < 0)
        log_warning(ps->env.log,
                    "linux.process_stats: %s: %s/PID/%s: %s (this kernel does not have it)", field,
                    ps->env.roots->proc, file, strerror(-r));
    return r == 0;
}

// Some files of a process are shown only to its owner and to root. Process 1 shows whether our
// rights are sufficient.
static void check_others(const struct process_stats *ps, const char *field, const char *file)
{
    char byte;
    ssize_t n = text_file_read_once(&byte, 1, ps->env.roots->proc, "/1/%s", file);
    if (n == -EACCES || n == -EPERM)
        log_warning(ps->env.log,
                    "linux.process_stats: %s: only for processes of this user (root may read all)",
                    field);
}

static void read_config(struct process_stats *ps)
{
    const Pb__ProcessStatsConfig *config = ps->config;
    ps->on_demand = !has_quirk(config, PB__PROCESS_STATS_CONFIG__QUIRKS__DISABLE_ON_DEMAND);
    ps->with_rollup =
        config->scan_smaps_rollup && has_own_file(ps, "scan_smaps_rollup", "smaps_rollup");
    ps->with_dmabuf = config->record_process_dmabuf_rss &&
                      has_own_file(ps, "record_process_dmabuf_rss", "dmabuf_rss");
    if (ps->with_rollup)
        check_others(ps, "scan_smaps_rollup", "smaps_rollup");
    if (config->resolve_process_fds)
        check_others(ps, "resolve_process_fds", "fd");
    ps->n_ttl_ticks = 1;
    if (config->proc_stats_poll_ms && config->proc_stats_cache_ttl_ms > config->proc_stats_poll_ms)
        ps->n_ttl_ticks = config->proc_stats_cache_ttl_ms / config->proc_stats_poll_ms;
    if (!config->proc_stats_poll_ms &&
        (config->scan_smaps_rollup || config->record_process_runtime ||
         config->record_process_dmabuf_rss))
        log_warning(ps->env.log, "linux.process_stats: counters are requested, but "
                                 "proc_stats_poll_ms is not set, so none are polled");
}

static void stop_listening(struct process_stats *ps)
{
    struct pid_feed *pids = ps->env.pids;
    if (!pids || pids->userdata != ps)
        return;
    pids->seen = NULL;
    pids->changed = NULL;
    pids->exited = NULL;
    pids->freed = NULL;
    pids->userdata = NULL;
}

static struct source *process_stats_close(struct source *source)
{
    struct process_stats *ps = (struct process_stats *)source;
    if (!ps)
        return NULL;
    stop_listening(ps);
    loop_remove_timer(ps->poller);
    loop_remove_timer(ps->drainer);
    process_table_clear(ps);
    if (ps->proc_dir)
        closedir(ps->proc_dir);
    free(ps);
    return NULL;
}

static int process_stats_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                              struct source **ret, struct err *err)
{
    static const Pb__ProcessStatsConfig no_config = PB__PROCESS_STATS_CONFIG__INIT;
    struct process_stats *ps = memory_calloc(1, sizeof(*ps));
    if (!ps)
        return err_errno(err, -ENOMEM, "state");
    ps->env = *env;
    ps->config = config->process_stats_config ? config->process_stats_config : &no_config;
    ps->n_known_max = N_KNOWN_MIN;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        ps->n_fds_max = limit.rlim_cur / 2 < N_FDS_KEPT_MAX ? limit.rlim_cur / 2 : N_FDS_KEPT_MAX;
    long ticks_per_second = sysconf(_SC_CLK_TCK);
    ps->ns_per_tick = (uint64_t)NSEC_PER_SEC / (ticks_per_second > 0 ? ticks_per_second : 100);
    ps->proc_dir = opendir(env->roots->proc);
    if (!ps->proc_dir) {
        int r = err_errno(err, -errno, "%s", env->roots->proc);
        process_stats_close((struct source *)ps);
        return r;
    }
    read_config(ps);
    *ret = (struct source *)ps;
    return 0;
}

static void scan_all(struct process_stats *ps)
{
    tree_write_all(ps);
    if (ps->config->resolve_process_fds)
        poll_fds_of_all(ps);
}

static bool wants_scan(const struct process_stats *ps)
{
    return ps->config->scan_all_processes_on_start &&
           !has_quirk(ps->config, PB__PROCESS_STATS_CONFIG__QUIRKS__DISABLE_INITIAL_DUMP);
}

static int listen_to_pids(struct process_stats *ps, struct err *err)
{
    struct pid_feed *pids = ps->env.pids;
    if (!pids || !ps->on_demand)
        return 0;
    if (pids->seen) {
        log_warning(ps->env.log, "linux.process_stats: configured twice; processes seen by other "
                                 "sources are looked up by the first only");
        ps->on_demand = false;
        return 0;
    }
    int r = source_add_timer(&ps->env, NSEC_MAX, 0, drain, ps, &ps->drainer);
    if (r < 0)
        return err_errno(err, r, "timer");
    pids->userdata = ps;
    pids->changed = pid_changed;
    pids->exited = task_exited;
    pids->freed = task_freed;
    pids->seen = pid_seen;
    return 0;
}

static int process_stats_start(struct source *source, struct err *err)
{
    struct process_stats *ps = (struct process_stats *)source;
    int r = listen_to_pids(ps, err);
    if (r < 0)
        return r;
    if (wants_scan(ps))
        scan_all(ps);
    if (ps->config->proc_stats_poll_ms) {
        r = source_add_timer(&ps->env, nsec_now(CLOCK_BOOTTIME),
                             ps->config->proc_stats_poll_ms * NSEC_PER_MSEC, poll, ps, &ps->poller);
        if (r < 0)
            return err_errno(err, r, "timer");
    }
    return 0;
}

static void process_stats_flush(struct source *source)
{
    struct process_stats *ps = (struct process_stats *)source;
    look_up_batch(ps, N_PENDING_MAX);
    ended_write(ps, true);
}

static void process_stats_stop(struct source *source)
{
    struct process_stats *ps = (struct process_stats *)source;
    stop_listening(ps);
    look_up_batch(ps, N_PENDING_MAX);
    ended_write(ps, true);
    ps->poller = loop_remove_timer(ps->poller);
    ps->drainer = loop_remove_timer(ps->drainer);
}

static void process_stats_counts(const struct source *source, struct source_counts *ret)
{
    const struct process_stats *ps = (const struct process_stats *)source;
    ret->events = ps->n_written;
    ret->events_lost = ps->env.writer->packets_dropped;
    ret->readings_missed = ps->n_missed;
}

static void process_stats_clear_state(struct source *source)
{
    struct process_stats *ps = (struct process_stats *)source;
    process_table_renew(ps);
    if (ps->env.pids)
        memset(ps->env.pids->recent, 0, sizeof(ps->env.pids->recent));
    if (wants_scan(ps))
        scan_all(ps);
}

const struct source_class process_stats_class = {
    .name = "linux.process_stats",
    .summary = "names of processes and threads, and their memory",
    .config = SOURCE_CONFIG(process_stats_config),
    .open = process_stats_open,
    .start = process_stats_start,
    .flush = process_stats_flush,
    .stop = process_stats_stop,
    .close = process_stats_close,
    .counts = process_stats_counts,
    .clear_state = process_stats_clear_state,
};
