// SPDX-License-Identifier: Apache-2.0
//
// Pages are read on a timer, not when the kernel reports them: events come in bursts of thousands,
// and a wake-up for each would disturb the recorded system. But the fastest bursts fill a buffer
// within the timer's period. A kernel that can report a fill level therefore wakes the reader too.
// One round reads at most ROUND_BYTES of each CPU. Before the rest is read, the process does all
// other work that is due.
//
// Before start(), the kernel has at most a new instance of our own. stop() restores everything.
#include "producer/sources/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/sources/ftrace/cpu_stats.h"
#include "producer/sources/ftrace/event_set.h"
#include "producer/sources/ftrace/lost_events.h"
#include "producer/sources/ftrace/reader.h"
#include "producer/sources/ftrace/setup.h"
#include "producer/sources/requester.h"
#include "protos/fields.h"

#define ROUND_BYTES          ((size_t)256 << 10)
#define DRAIN_PERIOD_MS      100
#define DRAIN_PERIOD_MS_POLL 1000 // if the kernel reports the fill level
#define DRAIN_PERIOD_MS_MAX  60000
#define FLUSH_PAGES_SPARE    16 // for pages written while a flush reads
#define STATS_ROOM           256
#define STATS_TEXT_MAX       1024 // bytes of the kernel's statistics of a CPU, and a NUL
#define WATCH_PAGES_MIN      16   // at the watermark; fewer would wake the reader all the time
#define EMPTY_WAKEUPS_MAX    16   // in a row: the kernel reports an empty buffer as full

// The first kernel version in which the wait for a fill level works.
#define POLL_MAJOR 6
#define POLL_MINOR 9

struct ftrace_source {
    struct source_env env;
    // Replaces env.pids if the pids of events are not the pids of /proc. This feed has no listener.
    struct pid_feed unheard;
    const Pb__FtraceConfig *config; // borrowed
    struct event_set events;
    struct kernel_symbols symbols;
    struct kernel_strings strings;
    struct setup setup;
    struct reader reader;
    struct lost_events *lost; // owned
    bool is_limited;          // the requester is not trusted
    uint64_t kb_taken;        // of `buffers`
    bool prepared;            // the buffer is open
    bool started;
    struct loop_timer *period, *more;
    nsec_t read_period;
    bool gives_exits;         // this source publishes the ends of tasks
    struct loop_io **watches; // owned, by CPU; NULL: not polled
    struct watch *watch_data;
    uint64_t kernel_lost_before, kernel_lost; // overruns, as counted by the kernel
    int64_t probe_hits_before, probe_misses_before;
};

struct watch {
    struct ftrace_source *source;
    size_t index;
    unsigned n_empty; // wake-ups without a page since the last one with a page
};

// A user who is not trusted may have this much of the kernel's memory, of all processors, and twice
// the default at least. The limit also bounds the time in which the loop reads all buffers at the
// end.
#define LIMITED_BUFFERS_KB (256u << 10)

static struct budget buffers = {.limits = {.what = "KiB of the kernel's buffers"}};

// -- opening --

static int load_names(struct ftrace_source *ftrace, struct err *err)
{
    const struct source_roots *roots = ftrace->env.roots;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    int r = tracefs_read_at(&text, "%s/printk_formats", roots->tracefs);
    if (r == 0)
        r = kernel_strings_parse(&ftrace->strings, text.text, text.size);
    if (r == -ENOMEM)
        return err_errno(err, r, "printk_formats");
    if (!ftrace->config->symbolize_ksyms)
        return 0;
    r = kernel_functions_get(roots->proc, ftrace->is_limited ? NSEC_MAX : KERNEL_FRESH,
                             &ftrace->symbols.functions);
    if (r < 0)
        log_warning(ftrace->env.log,
                    "ftrace: symbolize_ksyms: %s/kallsyms %s (needs CAP_SYSLOG and "
                    "kernel.kptr_restrict below 2); functions stay numbers",
                    roots->proc, r == -EPERM ? "shows no addresses" : strerror(-r));
    return 0;
}

static size_t kernel_long_size(const char *tracefs)
{
    struct page_layout layout;
    return setup_read_layout(tracefs, &layout, NULL) == 0 ? layout.commit_size : sizeof(long);
}

static struct source *ftrace_close(struct source *source);

static int check_access(const struct source_roots *roots, struct err *err)
{
    if (!roots->tracefs) {
        err_set(err, -ENOENT, "tracefs is not mounted");
        return err_hint(err, -ENOENT,
                        "run as root, or first: mount -t tracefs tracefs /sys/kernel/tracing");
    }
    CLEANUP(strbuf_done) struct strbuf text = {0};
    int r = tracefs_read_at(&text, "%s/trace_clock", roots->tracefs);
    if (r < 0) {
        err_errno(err, r, "%s", roots->tracefs);
        err_hint(err, r, "run as root, or let a group in: mount -o remount,gid=GROUP,mode=770 %s",
                 roots->tracefs);
    }
    return r;
}

// Switches on the events of ending tasks, if the session wants the names of these tasks and records
// any event at all. Without these events, the names are less complete. The first source of a
// session reads the ends for all its sources, so that the ends do not fill the small buffer of a
// source of rare events.
static int add_ends(struct ftrace_source *ftrace)
{
    struct err err = {0};
    struct pid_feed *pids = ftrace->env.pids;
    if (!ftrace->env.names_ended || pids->has_exits || pids == &ftrace->unheard ||
        (!ftrace->events.chosen.n && !ftrace->config->n_kprobe_events))
        return 0;
    int r = event_set_add_ends(&ftrace->events, ftrace->env.roots->tracefs, &err);
    pids->has_exits = ftrace->gives_exits = ftrace->events.exits.id != 0;
    if (r < 0 && r != -ENOMEM)
        log_debug(ftrace->env.log, "ftrace: tasks that exit are not named: %s", err.text);
    return r == -ENOMEM ? r : 0;
}

static int ftrace_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                       struct source **ret, struct err *err)
{
    static const Pb__FtraceConfig no_config = PB__FTRACE_CONFIG__INIT;
    int r = check_access(env->roots, err);
    bool is_limited = env->requester && env->requester->is_limited;
    if (r == 0 && is_limited && config->ftrace_config && config->ftrace_config->n_kprobe_events > 0)
        r = err_set(err, -EPERM,
                    "kprobe_events change the kernel's code: only root may record them");
    if (r < 0)
        return r;
    struct ftrace_source *ftrace = memory_calloc(1, sizeof(*ftrace));
    if (!ftrace)
        return err_errno(err, -ENOMEM, "ftrace");
    ftrace->env = *env;
    ftrace->is_limited = is_limited;
    ftrace->setup.fs.journal_fd = -1;
    ftrace->config = config->ftrace_config ? config->ftrace_config : &no_config;
    setup_warn(ftrace->config, env->log);
    if (!process_ids_are_of_kernel(env->roots->proc)) {
        log_warning(env->log,
                    "ftrace: events number tasks as the machine does, and /proc as this PID "
                    "namespace does: tasks of events have no names, or names of other tasks; "
                    "record in the PID namespace of the machine (containers: --pid=host)");
        ftrace->env.pids = &ftrace->unheard;
    }
    r = event_set_build(env->roots->tracefs, ftrace->config, kernel_long_size(env->roots->tracefs),
                        env->log, &ftrace->events, err);
    if (r == 0 && ftrace->events.chosen.n == 0 && ftrace->config->n_ftrace_events > 0 &&
        ftrace->config->n_kprobe_events == 0)
        r = err_set(err, -ENOENT, "this kernel has none of the events");
    if (r == 0 && is_limited && !setup_is_own(env->roots, ftrace->config, &ftrace->events))
        r = err_set(err, -EPERM,
                    "instance_name, preserve_ftrace_buffer, enable_function_graph and, before "
                    "Linux 6.10, ftrace/print use a buffer that others may use: only root may "
                    "record them");
    if (r == 0)
        r = add_ends(ftrace);
    if (r == 0 && !(ftrace->lost = lost_events_new(&ftrace->events)))
        r = err_errno(err, -ENOMEM, "ftrace");
    if (r == 0)
        r = load_names(ftrace, err);
    if (r < 0) {
        ftrace_close((struct source *)ftrace);
        return r;
    }
    *ret = (struct source *)ftrace;
    return 0;
}

// -- statistics --

// Sums the counts of our probes. Lines of kprobe_profile are "  NAME  HITS  MISSES".
static void read_probe_stats(const struct ftrace_source *ftrace, int64_t *ret_hits,
                             int64_t *ret_misses)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    *ret_hits = *ret_misses = 0;
    if (!ftrace->config->n_kprobe_events ||
        tracefs_read_at(&text, "%s/kprobe_profile", ftrace->setup.fs.root) < 0)
        return;
    struct span rest = span_over(text.text, text.size), line, word;
    while (span_take_line(&rest, &line)) {
        uint64_t hits = 0, misses = 0;
        char name[256];
        span_take_word(&line, &word);
        snprintf(name, sizeof(name), "%.*s", (int)span_size(word), word.pos);
        if (!event_set_has(&ftrace->events, EVENT_GROUP_KPROBE, name) &&
            !event_set_has(&ftrace->events, EVENT_GROUP_KRETPROBE, name))
            continue;
        span_take_u64(&line, &hits);
        span_take_u64(&line, &misses);
        *ret_hits += (int64_t)hits;
        *ret_misses += (int64_t)misses;
    }
}

static size_t read_stats_text(const struct ftrace_source *ftrace, size_t index,
                              char ret[STATS_TEXT_MAX])
{
    struct text_file file = {.fd = ftrace->reader.cpus[index].stats_fd, .n_piece = SIZE_MAX};
    ssize_t n = text_file_read(&file, ret, STATS_TEXT_MAX - 1);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static bool read_cpu_stats(const struct ftrace_source *ftrace, size_t index, struct cpu_stats *ret)
{
    char text[STATS_TEXT_MAX];
    if (!cpu_stats_parse(text, read_stats_text(ftrace, index, text), ret))
        return false;
    ret->cpu = ftrace->reader.cpus[index].cpu;
    return true;
}

static uint64_t sum_lost(const struct ftrace_source *ftrace)
{
    uint64_t sum = 0;
    struct cpu_stats stats;
    for (size_t i = 0; i < ftrace->reader.n_cpus; i++)
        if (read_cpu_stats(ftrace, i, &stats))
            sum += stats.overrun + stats.commit_overrun + stats.dropped_events;
    return sum;
}

static void write_names(struct wire_writer *w, uint32_t field, const struct strset *names)
{
    for (uint32_t i = 0; i < names->n; i++)
        wire_text(w, field, names->entries[i].text, names->entries[i].size);
}

static size_t names_room(const struct strset *names)
{
    size_t room = 0;
    for (uint32_t i = 0; i < names->n; i++)
        room += names->entries[i].size + 6;
    return room;
}

static void write_probe_stats(const struct ftrace_source *ftrace, struct wire_writer *w)
{
    int64_t hits, misses;
    read_probe_stats(ftrace, &hits, &misses);
    hits -= ftrace->probe_hits_before;
    misses -= ftrace->probe_misses_before;
    if (!hits && !misses)
        return;
    size_t mark = wire_begin(w, PB_FtraceStats_kprobe_stats);
    wire_int(w, PB_FtraceKprobeStats_hits, hits);
    wire_int(w, PB_FtraceKprobeStats_misses, misses);
    wire_end(w, mark);
}

static void write_stats_body(const struct ftrace_source *ftrace, struct wire_writer *w,
                             unsigned phase)
{
    const struct kernel_functions *kernel = ftrace->symbols.functions;
    wire_uint(w, PB_FtraceStats_phase, phase);
    for (size_t i = 0; i < ftrace->reader.n_cpus; i++) {
        struct cpu_stats stats;
        if (read_cpu_stats(ftrace, i, &stats))
            cpu_stats_write(&stats, w);
    }
    wire_uint(w, PB_FtraceStats_kernel_symbols_parsed, kernel ? kernel->functions.n : 0);
    wire_uint(w, PB_FtraceStats_kernel_symbols_mem_kb, kernel_functions_bytes(kernel) / 1024);
    write_names(w, PB_FtraceStats_unknown_ftrace_events, &ftrace->events.unknown);
    write_names(w, PB_FtraceStats_failed_ftrace_events, &ftrace->events.failed);
    if (ftrace->config->preserve_ftrace_buffer)
        wire_uint(w, PB_FtraceStats_preserve_ftrace_buffer, 1);
    for (unsigned status = 0; status < PAGE_STATUSES; status++)
        if (ftrace->reader.statuses >> status & 1)
            wire_uint(w, PB_FtraceStats_ftrace_parse_errors, status);
    if (phase == PB_END_OF_TRACE)
        write_probe_stats(ftrace, w);
    wire_uint(w, PB_FtraceStats_cpu_buffer_size_pages, ftrace->setup.buffer_pages);
    wire_uint(w, PB_FtraceStats_cached_cpu_buffer_size_pages, ftrace->setup.buffer_pages);
}

static void write_stats(const struct ftrace_source *ftrace, unsigned phase)
{
    size_t room = STATS_ROOM + ftrace->reader.n_cpus * CPU_STATS_ROOM +
                  names_room(&ftrace->events.unknown) + names_room(&ftrace->events.failed);
    struct packet_writer *writer = ftrace->env.writer;
    struct wire_writer *w = packet_writer_begin_message(writer, nsec_now(CLOCK_BOOTTIME), room,
                                                        PB_TracePacket_ftrace_stats);
    if (!w)
        return;
    write_stats_body(ftrace, w, phase);
    if (phase == PB_START_OF_TRACE)
        packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, FTRACE_KEY_START_STATS);
    else
        packet_writer_end(writer);
}

// -- reading --

// Reads both clocks at the same moment, for the bundles: readers convert the times by this pair.
static void snapshot_clock(struct ftrace_source *ftrace)
{
    struct bundle_head *clock = &ftrace->reader.clock;
    char text[STATS_TEXT_MAX];
    clock->clock = ftrace->setup.clock;
    if (!clock->clock || !ftrace->reader.n_cpus)
        return;
    int64_t boot_time = nsec_now(CLOCK_BOOTTIME);
    size_t size = read_stats_text(ftrace, 0, text);
    if (!size)
        return; // the previous pair is still valid
    clock->boot_time = boot_time;
    clock->ftrace_time = cpu_stats_now(text, size);
}

// Returns the pages that a round reads of each CPU.
static size_t round_pages(const struct ftrace_source *ftrace)
{
    size_t n = ROUND_BYTES / ftrace->reader.page_size;
    return n ? n : 1;
}

static void read_round(void *userdata)
{
    struct ftrace_source *ftrace = userdata;
    bool more = false;
    size_t n = round_pages(ftrace);
    snapshot_clock(ftrace);
    for (size_t i = 0; i < ftrace->reader.n_cpus; i++)
        more |= reader_drain(&ftrace->reader, i, n, false) == READER_MORE;
    if (more)
        loop_set_timer(ftrace->more, nsec_now(CLOCK_BOOTTIME), 0);
    else if (ftrace->events.exits.id)
        ftrace->env.pids->n_rounds++;
}

// A start takes tens of milliseconds. So that several sources with the same period, and the sources
// that start after them, cost one wake-up, all follow the source of events that started last.
static void read_on_time(void *userdata)
{
    struct ftrace_source *ftrace = userdata;
    nsec_t grid = ftrace->env.pids->read_grid, period = ftrace->read_period;
    nsec_t n_before = (loop_get_call(ftrace->env.loop)->due - grid) / period;
    loop_set_timer(ftrace->period, grid + (n_before + 1) * period, period);
    read_round(ftrace);
}

static void on_watermark(void *userdata)
{
    struct watch *watch = userdata;
    struct ftrace_source *ftrace = watch->source;
    uint32_t events = loop_get_call(ftrace->env.loop)->events;
    bool ended = events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN);
    if (ended || watch->n_empty == EMPTY_WAKEUPS_MAX) {
        ftrace->watches[watch->index] = loop_remove_io(ftrace->watches[watch->index]);
        return;
    }
    snapshot_clock(ftrace);
    uint64_t pages = ftrace->reader.counts.pages;
    if (reader_drain(&ftrace->reader, watch->index, round_pages(ftrace), false) == READER_MORE)
        loop_set_timer(ftrace->more, nsec_now(CLOCK_BOOTTIME), 0);
    watch->n_empty = ftrace->reader.counts.pages == pages ? watch->n_empty + 1 : 0;
}

static void drain_everything(struct ftrace_source *ftrace)
{
    size_t max_pages = (size_t)ftrace->setup.buffer_pages + FLUSH_PAGES_SPARE;
    snapshot_clock(ftrace);
    for (size_t i = 0; i < ftrace->reader.n_cpus; i++)
        reader_drain(&ftrace->reader, i, max_pages, true);
    uint64_t lost = sum_lost(ftrace);
    if (lost > ftrace->kernel_lost_before)
        ftrace->kernel_lost = lost - ftrace->kernel_lost_before;
}

// -- starting --

static int by_cpu(const void *a, const void *b)
{
    uint32_t left = ((const struct reader_cpu *)a)->cpu;
    uint32_t right = ((const struct reader_cpu *)b)->cpu;
    return left < right ? -1 : left > right;
}

// The files stay open: open() of a file of tracefs waits for the lock of all instances. Another
// program that makes an instance while memory is short holds this lock for seconds. Reads do not
// take the lock.
static void open_stats(struct ftrace_source *ftrace)
{
    for (size_t i = 0; i < ftrace->reader.n_cpus; i++) {
        struct reader_cpu *cpu = &ftrace->reader.cpus[i];
        struct text_file file;
        int r = text_file_open(&file, 0, ftrace->setup.fs.path, "/per_cpu/cpu%u/stats", cpu->cpu);
        cpu->stats_fd = file.fd;
        if (r < 0)
            log_warning(ftrace->env.log, "ftrace: losses of CPU %u are not counted: its stats: %s",
                        cpu->cpu, strerror(-r));
    }
}

static int open_pipes(struct ftrace_source *ftrace, struct err *err)
{
    CLEANUP(freep) char *folder = NULL;
    if (asprintf(&folder, "%s/per_cpu", ftrace->setup.fs.path) < 0)
        return -ENOMEM;
    DIR *dir CLEANUP(closedirp) = opendir(folder);
    if (!dir)
        return err_errno(err, -errno, "%s", folder);
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir))) {
        unsigned cpu;
        char rest;
        CLEANUP(freep) char *path = NULL;
        if (sscanf(entry->d_name, "cpu%u%c", &cpu, &rest) != 1)
            continue;
        if (asprintf(&path, "%s/cpu%u/trace_pipe_raw", folder, cpu) < 0) {
            r = -ENOMEM;
            break;
        }
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        r = fd < 0 ? err_errno(err, -errno, "%s", path) : reader_add_cpu(&ftrace->reader, cpu, fd);
    }
    if (r == 0 && !ftrace->reader.n_cpus)
        r = err_set(err, -ENODEV, "%s has no CPUs", folder);
    qsort(ftrace->reader.cpus, ftrace->reader.n_cpus, sizeof(struct reader_cpu), by_cpu);
    open_stats(ftrace);
    return r;
}

static bool kernel_can_poll(void)
{
    struct utsname name;
    unsigned major, minor;
    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           (major > POLL_MAJOR || (major == POLL_MAJOR && minor >= POLL_MINOR));
}

static int watch_buffers(struct ftrace_source *ftrace)
{
    size_t n = ftrace->reader.n_cpus;
    ftrace->watches = memory_calloc(n, sizeof(struct loop_io *));
    ftrace->watch_data = memory_calloc(n, sizeof(struct watch));
    if (!ftrace->watches || !ftrace->watch_data)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        ftrace->watch_data[i] = (struct watch){.source = ftrace, .index = i};
        r = loop_add_io(ftrace->env.loop, ftrace->reader.cpus[i].fd, EPOLLIN, on_watermark,
                        &ftrace->watch_data[i], &ftrace->watches[i]);
    }
    return r;
}

// Returns whether the kernel's watermark leaves so many pages free that the timer comes first at
// usual event rates.
static bool has_useful_watermark(const struct ftrace_source *ftrace)
{
    uint64_t percent, page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    return kernel_can_poll() && tracefs_read_u64(&ftrace->setup.fs, "buffer_percent", &percent) &&
           percent <= 100 &&
           percent * ftrace->setup.buffer_pages * page_size >=
               (uint64_t)WATCH_PAGES_MIN * ftrace->setup.page_size * 100;
}

static int start_timers(struct ftrace_source *ftrace, struct err *err)
{
    const Pb__FtraceConfig *config = ftrace->config;
    const struct log *log = ftrace->env.log;
    uint32_t period_ms = DRAIN_PERIOD_MS;
    if (config->drain_buffer_percent && !kernel_can_poll()) {
        log_warning(log, "ftrace: drain_buffer_percent: kernels before %u.%u do not wait for it",
                    POLL_MAJOR, POLL_MINOR);
    } else if (config->drain_buffer_percent) {
        int r = watch_buffers(ftrace);
        if (r < 0)
            log_warning(log, "ftrace: drain_buffer_percent: %s", strerror(-r));
        else
            period_ms = DRAIN_PERIOD_MS_POLL;
    } else if (has_useful_watermark(ftrace)) {
        watch_buffers(ftrace); // if this fails, the timer still reads
    }
    if (config->has_drain_period_ms) {
        if (config->drain_period_ms >= 1 && config->drain_period_ms <= DRAIN_PERIOD_MS_MAX)
            period_ms = config->drain_period_ms;
        else
            log_warning(log, "ftrace: drain_period_ms: %u is not within 1 to %u, %u is used",
                        config->drain_period_ms, DRAIN_PERIOD_MS_MAX, period_ms);
    }
    nsec_t period = (nsec_t)period_ms * NSEC_PER_MSEC;
    ftrace->env.pids->has_exits |= ftrace->gives_exits;
    if (ftrace->events.exits.id && ftrace->env.pids->exit_delay < period)
        ftrace->env.pids->exit_delay = period;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    ftrace->read_period = period;
    ftrace->env.pids->read_grid = now;
    int r =
        source_add_timer(&ftrace->env, now + period, period, read_on_time, ftrace, &ftrace->period);
    if (r == 0)
        r = source_add_timer(&ftrace->env, NSEC_MAX, 0, read_round, ftrace, &ftrace->more);
    return r < 0 ? err_errno(err, r, "timers") : 0;
}

static int init_reader(struct ftrace_source *ftrace, struct err *err)
{
    struct reader *reader = &ftrace->reader;
    const struct event_set *events = &ftrace->events;
    reader->layout = page_layout_default(events->long_size, ftrace->setup.page_size);
    reader->context = (struct event_context){ftrace->env.pids, &ftrace->symbols, &ftrace->strings};
    reader->plans = events->plans;
    reader->n_plans = events->n_plans;
    reader->exits = events->exits;
    reader->frees = events->frees;
    reader->print_filter = ftrace->config->print_filter;
    reader->print_id = events->print_id;
    reader->print_text = events->print_text;
    reader->keep_bad_pages = ftrace->config->debug_ftrace_abi;
    int r = reader_init(reader, ftrace->setup.page_size, ftrace->env.writer,
                        events->has_compact ? &events->compact : NULL);
    if (r == 0 && ftrace->symbols.functions)
        packet_writer_clear_state(ftrace->env.writer);
    return r < 0 ? err_errno(err, r, "ftrace") : open_pipes(ftrace, err);
}

static void end(struct ftrace_source *ftrace)
{
    ftrace->period = loop_remove_timer(ftrace->period);
    ftrace->more = loop_remove_timer(ftrace->more);
    for (size_t i = 0; ftrace->watches && i < ftrace->reader.n_cpus; i++)
        if (ftrace->watches[i])
            ftrace->watches[i] = loop_remove_io(ftrace->watches[i]);
    if (ftrace->gives_exits)
        ftrace->env.pids->has_exits = false;
    reader_done(&ftrace->reader);
    setup_close(&ftrace->setup, ftrace->env.log);
    if (ftrace->kb_taken)
        budget_give(&buffers, ftrace->env.requester->payer, ftrace->kb_taken);
    ftrace->kb_taken = 0;
    ftrace->started = ftrace->prepared = false;
}

// Returns the KiB that are left for the buffer of each processor, or UINT64_MAX.
static uint64_t buffer_kb_left(const struct ftrace_source *ftrace, uint64_t n_cpus)
{
    static const Pb__FtraceConfig no_config = PB__FTRACE_CONFIG__INIT;
    if (!ftrace->is_limited)
        return UINT64_MAX;
    uint64_t most = 2 * n_cpus * setup_buffer_kb(&no_config, setup_ram_bytes(), n_cpus);
    uint64_t held = budget_held(&buffers, ftrace->env.requester->payer);
    most = most > LIMITED_BUFFERS_KB ? most : LIMITED_BUFFERS_KB;
    return held < most ? (most - held) / n_cpus : 0;
}

static int open_buffer(struct ftrace_source *ftrace, struct err *err)
{
    uint64_t n_cpus = (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
    uint64_t kb = buffer_kb_left(ftrace, n_cpus);
    if (kb == 0)
        return err_set(err, -EDQUOT,
                       "the recordings of user %u have all of the kernel's buffers that they may "
                       "have",
                       (unsigned)ftrace->env.requester->uid);
    int r = setup_open(ftrace->env.roots, ftrace->config, &ftrace->events, kb, ftrace->env.log,
                       &ftrace->setup, err);
    if (r < 0)
        return r;
    uint64_t page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    uint64_t taken = ftrace->is_limited ? n_cpus * ftrace->setup.buffer_pages * page_kb : 0;
    if (taken && budget_take(&buffers, ftrace->env.requester->payer, taken, 0, NULL) == 0)
        ftrace->kb_taken = taken;
    r = init_reader(ftrace, err);
    if (r < 0)
        end(ftrace);
    else
        ftrace->prepared = true;
    return r;
}

// Opens an instance of our own, because an instance takes megabytes, and these may be missing when
// memory is short. The events stay off until start(), because an enabled event costs time. Other
// buffers stay untouched until start().
static int ftrace_prepare(struct source *source, struct err *err)
{
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    if (!setup_is_own(ftrace->env.roots, ftrace->config, &ftrace->events))
        return 0;
    return open_buffer(ftrace, err);
}

static int ftrace_start(struct source *source, struct err *err)
{
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    int r = ftrace->prepared ? 0 : open_buffer(ftrace, err);
    if (r < 0)
        return r;
    setup_enable(&ftrace->setup, ftrace->config, &ftrace->events, ftrace->env.log);
    r = start_timers(ftrace, err);
    if (r < 0) {
        end(ftrace);
        return r;
    }
    ftrace->kernel_lost_before = sum_lost(ftrace);
    read_probe_stats(ftrace, &ftrace->probe_hits_before, &ftrace->probe_misses_before);
    write_stats(ftrace, PB_START_OF_TRACE);
    r = setup_switch(&ftrace->setup, true);
    if (r < 0) {
        end(ftrace);
        return err_errno(err, r, "%s/tracing_on", ftrace->env.roots->tracefs);
    }
    ftrace->started = true;
    return 0;
}

// -- the rest of a source's life --

static void write_lost_ends(struct ftrace_source *ftrace)
{
    struct packet_writer *writer = ftrace->env.writer;
    packet_buffer_unlose(writer->buffer, lost_events_write_ends(ftrace->lost, writer));
}

static void ftrace_flush(struct source *source)
{
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    if (!ftrace->started)
        return;
    drain_everything(ftrace);
    write_lost_ends(ftrace);
}

static void ftrace_lost(struct source *source, const uint8_t *packet, size_t size)
{
    lost_events_add(((struct ftrace_source *)source)->lost, packet, size);
}

static void ftrace_stop(struct source *source)
{
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    if (!ftrace->started)
        return;
    setup_switch(&ftrace->setup, false);
    drain_everything(ftrace);
    write_lost_ends(ftrace);
    lost_events_write_sums(ftrace->lost, ftrace->env.writer);
    write_stats(ftrace, PB_END_OF_TRACE);
    end(ftrace);
}

static struct source *ftrace_close(struct source *source)
{
    if (!source)
        return NULL;
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    end(ftrace);
    lost_events_free(ftrace->lost);
    event_set_done(&ftrace->events);
    kernel_symbols_done(&ftrace->symbols);
    kernel_strings_done(&ftrace->strings);
    free(ftrace->watches);
    free(ftrace->watch_data);
    free(ftrace);
    return NULL;
}

static void ftrace_counts(const struct source *source, struct source_counts *ret)
{
    const struct ftrace_source *ftrace = (const struct ftrace_source *)source;
    const struct reader_counts *counts = &ftrace->reader.counts;
    uint64_t lost = counts->lost > ftrace->kernel_lost ? counts->lost : ftrace->kernel_lost;
    *ret = (struct source_counts){.events = counts->events, .events_lost = lost + counts->refused};
}

static void ftrace_clear_state(struct source *source)
{
    struct ftrace_source *ftrace = (struct ftrace_source *)source;
    if (ftrace->started)
        bundle_clear_state(&ftrace->reader.bundle);
}

static const struct config_unread unread[] = {
    {&pb__ftrace_config__descriptor, "initialize_ksyms_synchronously_for_testing", false,
     "has no effect in Perfetto either"},
    {.field = NULL},
};

const struct source_class ftrace_class = {
    .name = "linux.ftrace",
    .summary = "events of the kernel: scheduling, memory, reclaim, any tracepoint",
    .config = SOURCE_CONFIG(ftrace_config),
    .unread = unread,
    .open = ftrace_open,
    .prepare = ftrace_prepare,
    .start = ftrace_start,
    .flush = ftrace_flush,
    .stop = ftrace_stop,
    .lost = ftrace_lost,
    .close = ftrace_close,
    .counts = ftrace_counts,
    .clear_state = ftrace_clear_state,
};
