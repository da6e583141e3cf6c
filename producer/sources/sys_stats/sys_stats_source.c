// SPDX-License-Identifier: Apache-2.0
//
// Polls counters of the whole machine. Every kind has a period and a grid of its own, which begins
// when the source starts: kind k is due at start + i * period. One timer is set to the next moment
// at which anything is due. Kinds that are due together share a packet. Grid points that pass while
// the process sleeps are not repeated; they count as missed readings.
//
// A sample reads into one buffer and writes straight into the trace. The room that each kind needs
// is learned: if a packet overflows, it is dropped, and the same kinds are sampled again with twice
// the room.
#include "producer/sources/source.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/memory.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/sys_stats/counter_keys.h"
#include "producer/sources/sys_stats/sys_stats_texts.h"
#include "producer/sources/sys_stats/sysfs.h"
#include "protos/fields.h"

#define BUFFER_BYTES_MIN (32u << 10)
#define BUFFER_BYTES_MAX (4u << 20)
#define ROOM_BYTES_MIN   512u
#define ROOM_BYTES_MAX   (1u << 20)

// In the order of a packet.
enum poll_kind {
    POLL_MEMINFO,
    POLL_VMSTAT,
    POLL_STAT,
    POLL_DEVFREQ,
    POLL_CPUFREQ,
    POLL_BUDDYINFO,
    POLL_DISKSTAT,
    POLL_PSI,
    POLL_THERMAL,
    POLL_CPUIDLE,
    POLL_GPUFREQ,
    POLL_SLAB,
    N_POLLS,
};

#define N_PSI 3

struct poll {
    nsec_t period; // 0: not requested, or nothing to read
    nsec_t due;
    size_t n_room; // bytes of a sample of this kind, with some spare
    bool failed;   // already logged
};

struct sys_stats {
    struct source_env env;
    const Pb__SysStatsConfig *config; // borrowed
    struct poll polls[N_POLLS];
    struct loop_timer *timer;
    char *buffer; // owned
    size_t n_buffer;
    struct text_file files[N_POLLS]; // of kinds with a single file
    struct text_file psi[N_PSI];
    struct counter_set meminfo, vmstat;
    struct sysfs_values sysfs[N_POLLS];
    uint32_t stat_counters;
    uint64_t ns_per_tick;
    uint64_t n_samples, n_missed;
};

struct poll_class {
    const char *name;
    const char *path;     // one file in /proc, or NULL
    size_t n_record_max;  // of text_file_open()
    int sysfs;            // enum sysfs_kind, or -1
    size_t period_offset; // of the period in Pb__SysStatsConfig
};

#define PERIOD(field) offsetof(Pb__SysStatsConfig, field##_period_ms)

static const struct poll_class poll_classes[N_POLLS] = {
    [POLL_MEMINFO] = {"meminfo", "/meminfo", 0, -1, PERIOD(meminfo)},
    [POLL_VMSTAT] = {"vmstat", "/vmstat", 96, -1, PERIOD(vmstat)},
    [POLL_STAT] = {"stat", "/stat", 0, -1, PERIOD(stat)},
    [POLL_DEVFREQ] = {"devfreq", NULL, 0, SYSFS_DEVFREQ, PERIOD(devfreq)},
    [POLL_CPUFREQ] = {"cpufreq", NULL, 0, SYSFS_CPUFREQ, PERIOD(cpufreq)},
    [POLL_BUDDYINFO] = {"buddyinfo", "/buddyinfo", 2048, -1, PERIOD(buddyinfo)},
    [POLL_DISKSTAT] = {"diskstat", "/diskstats", 3072, -1, PERIOD(diskstat)},
    [POLL_PSI] = {"psi", NULL, 0, -1, PERIOD(psi)},
    [POLL_THERMAL] = {"thermal", NULL, 0, SYSFS_THERMAL, PERIOD(thermal)},
    [POLL_CPUIDLE] = {"cpuidle", NULL, 0, SYSFS_CPUIDLE, PERIOD(cpuidle)},
    [POLL_GPUFREQ] = {"gpufreq", NULL, 0, SYSFS_GPUFREQ, PERIOD(gpufreq)},
    [POLL_SLAB] = {"slab", "/slabinfo", 512, -1, PERIOD(slab)},
};

// The paths of each enum sysfs_kind.
static const char *const sysfs_places[] = {
    [SYSFS_CPUFREQ] = "/sys/devices/system/cpu/cpu*/cpufreq",
    [SYSFS_CPUIDLE] = "/sys/devices/system/cpu/cpu*/cpuidle",
    [SYSFS_THERMAL] = "/sys/class/thermal",
    [SYSFS_DEVFREQ] = "/sys/class/devfreq",
    [SYSFS_GPUFREQ] = "/sys/class/kgsl and /sys/class/drm",
};

struct psi_class {
    const char *path;
    uint32_t some, full;
};

static const struct psi_class psi_classes[N_PSI] = {
    {"/pressure/cpu", PB_PSI_RESOURCE_CPU_SOME, PB_PSI_RESOURCE_CPU_FULL},
    {"/pressure/io", PB_PSI_RESOURCE_IO_SOME, PB_PSI_RESOURCE_IO_FULL},
    {"/pressure/memory", PB_PSI_RESOURCE_MEMORY_SOME, PB_PSI_RESOURCE_MEMORY_FULL},
};

// Reads the text of `file` up to its last newline into the buffer, which grows if a text fills it.
static int read_text(struct sys_stats *stats, const struct text_file *file, struct span *ret)
{
    for (;;) {
        ssize_t n = text_file_read(file, stats->buffer, stats->n_buffer);
        if (n < 0)
            return (int)n;
        if ((size_t)n < stats->n_buffer || stats->n_buffer >= BUFFER_BYTES_MAX) {
            *ret = span_whole_lines(span_over(stats->buffer, (size_t)n));
            return 0;
        }
        char *grown = realloc(stats->buffer, stats->n_buffer * 2);
        if (!grown)
            return -ENOMEM;
        stats->buffer = grown;
        stats->n_buffer *= 2;
    }
}

// Logs that a file of this kind cannot be read, with the remedy.
static void report_absent(struct sys_stats *stats, enum poll_kind kind, const char *where, int r)
{
    const char *hint = "";
    if (r == -EACCES || r == -EPERM)
        hint = " (root may read it)";
    else if (r == -EOPNOTSUPP)
        hint = " (boot with psi=1)";
    else if (r == -ENOENT)
        hint = " (this kernel or machine does not have it)";
    log_warning(stats->env.log, "linux.sys_stats: %s: %s%s: %s%s", poll_classes[kind].name,
                poll_classes[kind].sysfs < 0 ? stats->env.roots->proc : "", where, strerror(-r),
                hint);
}

static void fail_poll(struct sys_stats *stats, enum poll_kind kind, const char *where, int r)
{
    struct poll *poll = &stats->polls[kind];
    if (!poll->failed)
        report_absent(stats, kind, where, r);
    poll->failed = true;
}

static void write_psi(struct sys_stats *stats, struct wire_writer *w)
{
    for (unsigned i = 0; i < N_PSI; i++) {
        struct span text;
        if (stats->psi[i].fd >= 0 && read_text(stats, &stats->psi[i], &text) == 0)
            psi_text_write(text, psi_classes[i].some, psi_classes[i].full, w);
    }
}

static int write_counters(struct counter_set *set, struct span text, struct wire_writer *w,
                          uint32_t field)
{
    int r = set->stale ? counter_set_learn(set, text) : 0;
    if (r == 0)
        counter_set_write(set, text, w, field);
    return r;
}

static int write_file(struct sys_stats *stats, enum poll_kind kind, struct wire_writer *w)
{
    struct span text;
    int r = read_text(stats, &stats->files[kind], &text);
    if (r < 0)
        return r;
    switch (kind) {
    case POLL_MEMINFO:
        return write_counters(&stats->meminfo, text, w, PB_SysStats_meminfo);
    case POLL_VMSTAT:
        return write_counters(&stats->vmstat, text, w, PB_SysStats_vmstat);
    case POLL_STAT:
        stat_text_write(text, stats->stat_counters, stats->ns_per_tick, w);
        return 0;
    case POLL_BUDDYINFO:
        buddyinfo_text_write(text, w);
        return 0;
    case POLL_DISKSTAT:
        diskstats_text_write(text, w);
        return 0;
    default:
        slabinfo_text_write(text, w);
        return 0;
    }
}

static void write_poll(struct sys_stats *stats, enum poll_kind kind, struct wire_writer *w)
{
    size_t before = wire_size(w);
    if (kind == POLL_PSI) {
        write_psi(stats, w);
    } else if (poll_classes[kind].sysfs >= 0) {
        sysfs_values_write(&stats->sysfs[kind], w);
    } else {
        int r = write_file(stats, kind, w);
        if (r < 0)
            fail_poll(stats, kind, poll_classes[kind].path, r);
    }
    size_t n_room = wire_size(w) - before;
    n_room += n_room / 4;
    if (n_room > stats->polls[kind].n_room)
        stats->polls[kind].n_room = n_room;
}

static size_t room_for(const struct sys_stats *stats, uint32_t due)
{
    size_t n_room = 64; // without the kinds
    for (enum poll_kind kind = 0; kind < N_POLLS; kind++)
        if (due & 1u << kind)
            n_room += stats->polls[kind].n_room;
    return n_room < ROOM_BYTES_MAX ? n_room : ROOM_BYTES_MAX;
}

static void widen_room(struct sys_stats *stats, uint32_t due)
{
    for (enum poll_kind kind = 0; kind < N_POLLS; kind++)
        if (due & 1u << kind)
            stats->polls[kind].n_room *= 2;
}

static void sample(struct sys_stats *stats, uint32_t due)
{
    struct packet_writer *writer = stats->env.writer;
    for (;;) {
        size_t n_room = room_for(stats, due);
        struct wire_writer *w = packet_writer_begin_message(writer, nsec_now(CLOCK_BOOTTIME),
                                                            n_room, PB_TracePacket_sys_stats);
        if (!w)
            return;
        for (enum poll_kind kind = 0; kind < N_POLLS; kind++)
            if (due & 1u << kind)
                write_poll(stats, kind, w);
        wire_uint(w, PB_SysStats_collection_end_timestamp, (uint64_t)nsec_now(CLOCK_BOOTTIME));
        if (!w->overflow || n_room == ROOM_BYTES_MAX) {
            if (packet_writer_end(writer))
                stats->n_samples++;
            return;
        }
        packet_writer_cancel(writer);
        widen_room(stats, due);
    }
}

// Moves each kind that is due at `now` to its next grid point. Returns these kinds as bits.
static uint32_t take_due(struct sys_stats *stats, nsec_t now, nsec_t *ret_next)
{
    uint32_t due = 0;
    nsec_t next = NSEC_MAX;
    for (enum poll_kind kind = 0; kind < N_POLLS; kind++) {
        struct poll *poll = &stats->polls[kind];
        if (!poll->period)
            continue;
        if (poll->due <= now) {
            due |= 1u << kind;
            nsec_t n_periods = (now - poll->due) / poll->period;
            stats->n_missed += (uint64_t)n_periods;
            poll->due += (n_periods + 1) * poll->period;
        }
        if (poll->due < next)
            next = poll->due;
    }
    *ret_next = next;
    return due;
}

static void tick(void *userdata)
{
    struct sys_stats *stats = userdata;
    nsec_t next;
    uint32_t due = take_due(stats, nsec_now(CLOCK_BOOTTIME), &next);
    loop_set_timer(stats->timer, next, 0);
    if (due)
        sample(stats, due);
}

static void report_counters(struct sys_stats *stats, enum poll_kind kind,
                            const struct counter_set *set, const int *keys, size_t n)
{
    CLEANUP(strbuf_done) struct strbuf names = {0};
    counter_set_list_missing(set, keys, n, &names);
    if (names.size)
        log_info(stats->env.log, "linux.sys_stats: %s: this kernel does not have %s",
                 poll_classes[kind].name, names.text);
}

// Opens the file of `kind` and checks that it can be read.
static int open_file(struct sys_stats *stats, enum poll_kind kind)
{
    const struct poll_class *class = &poll_classes[kind];
    struct text_file *file = &stats->files[kind];
    struct span text;
    int r = text_file_open(file, class->n_record_max, stats->env.roots->proc, "%s", class->path);
    if (r == 0)
        r = read_text(stats, file, &text);
    if (r < 0) {
        text_file_close(file);
        report_absent(stats, kind, class->path, r);
        return r;
    }
    const Pb__SysStatsConfig *config = stats->config;
    if (kind == POLL_MEMINFO) {
        r = counter_set_learn(&stats->meminfo, text);
        report_counters(stats, kind, &stats->meminfo, (const int *)config->meminfo_counters,
                        config->n_meminfo_counters);
    } else if (kind == POLL_VMSTAT) {
        r = counter_set_learn(&stats->vmstat, text);
        text_file_keep_end(file, text);
        report_counters(stats, kind, &stats->vmstat, (const int *)config->vmstat_counters,
                        config->n_vmstat_counters);
    }
    return r;
}

static int open_psi(struct sys_stats *stats)
{
    int n_open = 0, r = 0;
    for (unsigned i = 0; i < N_PSI; i++) {
        struct span text;
        r = text_file_open(&stats->psi[i], 0, stats->env.roots->proc, "%s", psi_classes[i].path);
        if (r == 0)
            r = read_text(stats, &stats->psi[i], &text);
        if (r < 0) {
            text_file_close(&stats->psi[i]);
            report_absent(stats, POLL_PSI, psi_classes[i].path, r);
        } else {
            n_open++;
        }
    }
    return n_open ? 0 : r;
}

static int open_poll(struct sys_stats *stats, enum poll_kind kind)
{
    if (kind == POLL_PSI)
        return open_psi(stats);
    if (poll_classes[kind].sysfs < 0)
        return open_file(stats, kind);
    int r = sysfs_values_open(&stats->sysfs[kind], (enum sysfs_kind)poll_classes[kind].sysfs,
                              stats->env.roots->sys);
    if (r < 0)
        report_absent(stats, kind, sysfs_places[poll_classes[kind].sysfs], r);
    return r;
}

static void init_counters(struct sys_stats *stats)
{
    const Pb__SysStatsConfig *config = stats->config;
    size_t n_unknown =
        counter_set_init(&stats->meminfo, &counter_kind_meminfo,
                         (const int *)config->meminfo_counters, config->n_meminfo_counters) +
        counter_set_init(&stats->vmstat, &counter_kind_vmstat, (const int *)config->vmstat_counters,
                         config->n_vmstat_counters);
    if (n_unknown)
        log_warning(
            stats->env.log,
            "linux.sys_stats: mmtrace does not know %zu of the requested counters; they are "
            "left out",
            n_unknown);
    for (size_t i = 0; i < config->n_stat_counters; i++)
        stats->stat_counters |= 1u << ((unsigned)config->stat_counters[i] & 31);
    if (config->n_stat_counters == 0)
        stats->stat_counters = UINT32_MAX;
}

static int open_polls(struct sys_stats *stats, struct err *err)
{
    unsigned n_wanted = 0, n_open = 0;
    int failure = 0;
    for (enum poll_kind kind = 0; kind < N_POLLS; kind++) {
        uint32_t period_ms;
        memcpy(&period_ms, (const char *)stats->config + poll_classes[kind].period_offset,
               sizeof(period_ms));
        if (!period_ms)
            continue;
        n_wanted++;
        int r = open_poll(stats, kind);
        if (r == -ENOMEM)
            return err_errno(err, r, "state");
        if (r < 0) {
            failure = r;
            continue;
        }
        n_open++;
        stats->polls[kind].period = period_ms * NSEC_PER_MSEC;
    }
    if (!n_wanted)
        log_warning(stats->env.log,
                    "linux.sys_stats: the config sets no period, so nothing is polled");
    if (n_wanted && !n_open)
        return err_errno(err, failure, "none of the requested counters can be read");
    return 0;
}

static struct source *sys_stats_close(struct source *source)
{
    struct sys_stats *stats = (struct sys_stats *)source;
    if (!stats)
        return NULL;
    loop_remove_timer(stats->timer);
    for (unsigned i = 0; i < N_POLLS; i++) {
        text_file_close(&stats->files[i]);
        sysfs_values_close(&stats->sysfs[i]);
    }
    for (unsigned i = 0; i < N_PSI; i++)
        text_file_close(&stats->psi[i]);
    counter_set_done(&stats->meminfo);
    counter_set_done(&stats->vmstat);
    free(stats->buffer);
    free(stats);
    return NULL;
}

static int sys_stats_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                          struct source **ret, struct err *err)
{
    static const Pb__SysStatsConfig no_config = PB__SYS_STATS_CONFIG__INIT;
    struct sys_stats *stats = memory_calloc(1, sizeof(*stats));
    if (!stats)
        return err_errno(err, -ENOMEM, "state");
    stats->env = *env;
    stats->config = config->sys_stats_config ? config->sys_stats_config : &no_config;
    stats->n_buffer = BUFFER_BYTES_MIN;
    stats->buffer = memory_malloc(stats->n_buffer);
    for (unsigned i = 0; i < N_POLLS; i++) {
        stats->files[i].fd = -1;
        stats->polls[i].n_room = ROOM_BYTES_MIN;
    }
    for (unsigned i = 0; i < N_PSI; i++)
        stats->psi[i].fd = -1;
    long ticks_per_second = sysconf(_SC_CLK_TCK);
    stats->ns_per_tick = (uint64_t)NSEC_PER_SEC / (ticks_per_second > 0 ? ticks_per_second : 100);
    init_counters(stats);
    int r = stats->buffer ? open_polls(stats, err) : err_errno(err, -ENOMEM, "state");
    if (r < 0) {
        sys_stats_close((struct source *)stats);
        return r;
    }
    *ret = (struct source *)stats;
    return 0;
}

static int sys_stats_start(struct source *source, struct err *err)
{
    struct sys_stats *stats = (struct sys_stats *)source;
    nsec_t now = nsec_now(CLOCK_BOOTTIME), next;
    for (unsigned i = 0; i < N_POLLS; i++)
        stats->polls[i].due = now;
    int r = source_add_timer(&stats->env, NSEC_MAX, 0, tick, stats, &stats->timer);
    if (r < 0)
        return err_errno(err, r, "timer");
    uint32_t due = take_due(stats, now, &next);
    loop_set_timer(stats->timer, next, 0);
    if (due)
        sample(stats, due);
    return 0;
}

static void sys_stats_stop(struct source *source)
{
    struct sys_stats *stats = (struct sys_stats *)source;
    stats->timer = loop_remove_timer(stats->timer);
}

static void sys_stats_counts(const struct source *source, struct source_counts *ret)
{
    const struct sys_stats *stats = (const struct sys_stats *)source;
    ret->events = stats->n_samples;
    ret->events_lost = stats->env.writer->packets_dropped;
    ret->readings_missed = stats->n_missed;
}

static void sys_stats_check(const Pb__DataSourceConfig *config,
                            void (*warn)(void *userdata, const char *what), void *userdata)
{
    const Pb__SysStatsConfig *stats = config->sys_stats_config;
    if (!stats)
        return;
    const struct {
        const char *name;
        size_t n_counters;
        uint32_t period_ms;
    } parts[] = {
        {"meminfo", stats->n_meminfo_counters, stats->meminfo_period_ms},
        {"vmstat", stats->n_vmstat_counters, stats->vmstat_period_ms},
        {"stat", stats->n_stat_counters, stats->stat_period_ms},
    };
    for (size_t k = 0; k < ELEMENTS(parts); k++) {
        char what[128];
        snprintf(what, sizeof(what),
                 "sys_stats_config.%s_counters: has no effect without %s_period_ms", parts[k].name,
                 parts[k].name);
        if (parts[k].n_counters && !parts[k].period_ms)
            warn(userdata, what);
    }
}

const struct source_class sys_stats_class = {
    .name = "linux.sys_stats",
    .summary = "counters of the whole machine: vmstat, meminfo, cpu times, pressure and more",
    .config = SOURCE_CONFIG(sys_stats_config),
    .check = sys_stats_check,
    .open = sys_stats_open,
    .start = sys_stats_start,
    .stop = sys_stats_stop,
    .close = sys_stats_close,
    .counts = sys_stats_counts,
};
