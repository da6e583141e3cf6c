// SPDX-License-Identifier: Apache-2.0
//
// The order matters: the buffer is off during the setup, clock and size come first (both empty the
// buffer), and filters come before their events.
//
// An instance of our own is preferred, because it affects nobody else's tracing. Some features
// exist only in the main buffer: texts written to trace_marker (instances get copies since 6.16),
// the function_graph tracer, and events recorded before the start. A config with such a feature
// gets the main buffer, if it is not in use.
//
// If a setting fails, the recording goes on without it, and the log has a line.
#include "producer/sources/ftrace/setup.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/sources/ftrace/syscall_numbers.h"

#define RAM_HIGH_BYTES    (UINT64_C(7) << 30)
#define BUFFER_HIGH_KB    (8u << 10)
#define BUFFER_LOW_KB     (2u << 10)
#define KPROBE_MAX_ACTIVE "1024" // maximum concurrent calls of one function, for return probes
#define SUBBUF_KB_MAX     2048
#define SUBBUF_KB         16 // of a buffer of our own, if the buffer has SUBBUFS_MIN of them
#define SUBBUFS_MIN       64
#define SUBBUF_FILE       "buffer_subbuf_size_kb"
#define BUFFERS_RAM_SHARE 16         // the buffers of all CPUs take this part of the memory at most
#define BUFFERS_KB_MAX    (1u << 20) // the allocation stops the daemon: 3 s for 1.5 GiB
#define MARKER_COPIES     "options/copy_trace_marker"

// Values of FtraceClock.
enum {
    CLOCK_BOOT = 0,
    CLOCK_UNKNOWN = 1,
    CLOCK_GLOBAL = 2,
    CLOCK_LOCAL = 3,
    CLOCK_MONO_RAW = 4,
};

struct step {
    struct setup *setup;
    const Pb__FtraceConfig *config;
    struct event_set *set;
    uint64_t most_kb; // of the buffer of each processor
    const struct log *log;
};

uint64_t setup_ram_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t setup_buffer_kb(const Pb__FtraceConfig *config, uint64_t ram_bytes, uint64_t n_cpus)
{
    uint64_t by_ram = ram_bytes >= RAM_HIGH_BYTES ? BUFFER_HIGH_KB : BUFFER_LOW_KB;
    uint64_t all = ram_bytes / 1024 / BUFFERS_RAM_SHARE, asked = config->buffer_size_kb;
    uint64_t most = (all < BUFFERS_KB_MAX ? all : BUFFERS_KB_MAX) / (n_cpus ? n_cpus : 1);
    if (!asked || (config->buffer_size_lower_bound && asked < by_ram))
        return by_ram;
    if (most < by_ram)
        most = by_ram;
    return asked < most ? asked : most;
}

void setup_warn(const Pb__FtraceConfig *config, const struct log *log)
{
    if (config->n_atrace_categories || config->n_atrace_apps ||
        config->n_atrace_categories_prefer_sdk)
        log_warning(log, "ftrace: atrace_categories, atrace_apps: userspace is not told to trace "
                         "(this needs Android's atrace); the kernel's events of the categories and "
                         "what is written to trace_marker are recorded");
    if (config->ksyms_mem_policy == PB__FTRACE_CONFIG__KSYMS_MEM_POLICY__KSYMS_RETAIN)
        log_warning(log, "ftrace: ksyms_mem_policy: symbols live as long as the recording, there "
                         "is nothing to retain");
    if (!config->enable_function_graph &&
        (config->n_function_filters || config->n_function_graph_roots ||
         config->function_graph_max_depth))
        log_warning(log, "ftrace: function_filters, function_graph_roots and "
                         "function_graph_max_depth do nothing without enable_function_graph");
    if (config->preserve_ftrace_buffer &&
        (config->buffer_size_kb || config->use_monotonic_raw_clock))
        log_warning(log, "ftrace: preserve_ftrace_buffer: buffer_size_kb and the clock stay as "
                         "they are, setting them would empty the buffer");
}

// -- settings --

__attribute__((format(printf, 3, 4))) static char *format_text(char *text, size_t size,
                                                               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return text;
}

static int change(const struct step *step, const char *field, const char *path, const char *text)
{
    int r = tracefs_change(&step->setup->fs, path, text);
    if (r < 0)
        log_warning(step->log, "ftrace: %s: %s/%s: %s", field, step->setup->fs.path, path,
                    strerror(-r));
    return r;
}

static void fail_event(const struct step *step, const char *group, const char *name, int r)
{
    char text[256];
    format_text(text, sizeof(text), "%s/%s", group, name);
    log_warning(step->log, "ftrace: %s cannot be recorded: %s", text, strerror(-r));
    strset_add(&step->set->failed, text, strlen(text));
}

static uint32_t clock_number(const char *name)
{
    if (str_eq(name, "boot"))
        return CLOCK_BOOT;
    if (str_eq(name, "global"))
        return CLOCK_GLOBAL;
    if (str_eq(name, "local"))
        return CLOCK_LOCAL;
    return str_eq(name, "mono_raw") ? CLOCK_MONO_RAW : CLOCK_UNKNOWN;
}

// Returns whether the list has the word: "[local] global boot" has "global".
static bool has_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += size)
        if ((p == text || strchr(" [", p[-1])) && strchr(" ]\n", p[size]))
            return true;
    return false;
}

static void set_clock(const struct step *step)
{
    static const char *const preferred[] = {"boot", "global", "local"};
    struct setup *setup = step->setup;
    CLEANUP(strbuf_done) struct strbuf clocks = {0};
    setup->clock = CLOCK_UNKNOWN;
    if (tracefs_read(&setup->fs, "trace_clock", &clocks) < 0 || !clocks.text)
        return;
    const char *wanted = NULL;
    if (step->config->use_monotonic_raw_clock && has_word(clocks.text, "mono_raw"))
        wanted = "mono_raw";
    for (size_t i = 0; !wanted && i < ELEMENTS(preferred); i++)
        if (has_word(clocks.text, preferred[i]))
            wanted = preferred[i];
    if (wanted && !step->config->preserve_ftrace_buffer)
        change(step, "clock", "trace_clock", wanted);
    if (tracefs_read(&setup->fs, "trace_clock", &clocks) == 0) {
        tracefs_setting(&clocks);
        setup->clock = clock_number(clocks.text);
    }
    if (setup->clock)
        log_warning(step->log,
                    "ftrace: the clock is %s, not boot: times in the trace are converted by "
                    "snapshots of both",
                    clocks.text);
}

// Returns the kilobytes of each CPU's buffer; their total, an upper limit, if the CPUs differ.
static uint64_t read_buffer_kb(const struct tracefs *fs)
{
    uint64_t kb;
    bool is_known = tracefs_read_u64(fs, "buffer_size_kb", &kb) ||
                    tracefs_read_u64(fs, "buffer_total_size_kb", &kb);
    return is_known ? kb : 0;
}

// A read takes one sub-buffer. The call itself costs as much as twenty events, so that a page is
// too little. Without the file (before Linux 6.8) a sub-buffer is a page. Sub-buffers of others
// stay as they are. Returns whether sub-buffers are larger than a page now.
static bool enlarge_subbufs(const struct step *step, uint64_t buffer_kb)
{
    struct tracefs *fs = &step->setup->fs;
    uint64_t kb;
    char text[32];
    return fs->created && buffer_kb >= (uint64_t)SUBBUF_KB * SUBBUFS_MIN &&
           tracefs_read_u64(fs, SUBBUF_FILE, &kb) && kb < SUBBUF_KB &&
           tracefs_change(fs, SUBBUF_FILE, format_text(text, sizeof(text), "%d", SUBBUF_KB)) == 0;
}

// Several pages in a row may be scarce where single pages are not.
static void shrink_subbufs(const struct step *step)
{
    char text[32];
    long kb = sysconf(_SC_PAGESIZE) / 1024;
    tracefs_change(&step->setup->fs, SUBBUF_FILE, format_text(text, sizeof(text), "%ld", kb));
}

static int try_buffer_size(const struct step *step, uint64_t kb)
{
    char text[32];
    return tracefs_change(&step->setup->fs, "buffer_size_kb",
                          format_text(text, sizeof(text), "%" PRIu64, kb));
}

// Returns the resulting kilobytes of each CPU's buffer, or 0 if they could not be set.
static uint64_t set_buffer_size(const struct step *step, uint64_t asked)
{
    bool enlarged = enlarge_subbufs(step, asked);
    uint64_t kb = asked;
    int r = try_buffer_size(step, kb);
    if (r == -ENOMEM && enlarged) {
        shrink_subbufs(step);
        r = try_buffer_size(step, kb);
    }
    while (r == -ENOMEM && kb > 1)
        r = try_buffer_size(step, kb /= 2);
    if (r == 0 && kb != asked)
        log_warning(step->log, "ftrace: buffer_size_kb: no memory for %" PRIu64 ", it is %" PRIu64,
                    asked, kb);
    if (r == 0)
        return kb;
    log_warning(step->log, "ftrace: buffer_size_kb: %s", strerror(-r));
    return 0;
}

static void choose_buffer_size(const struct step *step)
{
    uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE), kb = 0;
    if (!step->config->preserve_ftrace_buffer) {
        kb = setup_buffer_kb(step->config, setup_ram_bytes(),
                             (uint64_t)sysconf(_SC_NPROCESSORS_CONF));
        if (kb > step->most_kb) {
            kb = step->most_kb;
            log_warning(step->log,
                        "ftrace: buffer_size_kb is lowered to %" PRIu64 ": this is left of the "
                        "kernel's memory for the recordings of the user",
                        kb);
        } else if (kb < step->config->buffer_size_kb) {
            log_warning(step->log,
                        "ftrace: buffer_size_kb: %" PRIu32 " is lowered to %" PRIu64
                        ": the buffers of all processors take no more than 1 GiB and a %dth of "
                        "the memory",
                        step->config->buffer_size_kb, kb, BUFFERS_RAM_SHARE);
        }
        kb = set_buffer_size(step, kb);
    }
    if (!kb)
        kb = read_buffer_kb(&step->setup->fs);
    uint64_t pages = kb * 1024 / page_size;
    step->setup->buffer_pages = pages ? (uint32_t)pages : 1;
}

static void read_page_size(const struct step *step, const struct page_layout *layout)
{
    uint64_t kb;
    step->setup->page_size = layout->data_offset + layout->data_size;
    if (tracefs_read_u64(&step->setup->fs, SUBBUF_FILE, &kb) && kb && kb <= SUBBUF_KB_MAX)
        step->setup->page_size = kb * 1024;
}

static bool is_option_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            return false;
    return *name;
}

// Returns whether the config sets the same option again.
static bool is_set_again(const Pb__FtraceConfig *config, size_t i)
{
    const Pb__FtraceConfig__TracefsOption *option = config->tracefs_options[i];
    for (size_t k = i + 1; k < config->n_tracefs_options; k++)
        if (config->tracefs_options[k]->name &&
            str_eq(config->tracefs_options[k]->name, option->name ? option->name : ""))
            return true;
    return false;
}

// The kernel may wait for all processors when an option changes. Therefore only the last state of
// an option is set.
static void set_options(const struct step *step)
{
    for (size_t i = 0; i < step->config->n_tracefs_options; i++) {
        const Pb__FtraceConfig__TracefsOption *option = step->config->tracefs_options[i];
        const char *name = option->name ? option->name : "";
        if (is_set_again(step->config, i) ||
            option->state == PB__FTRACE_CONFIG__TRACEFS_OPTION__STATE__STATE_UNKNOWN)
            continue;
        if (!is_option_name(name)) {
            log_warning(step->log, "ftrace: tracefs_options: \"%s\" is not the name of an option",
                        name);
            continue;
        }
        char path[128];
        bool on = option->state == PB__FTRACE_CONFIG__TRACEFS_OPTION__STATE__STATE_ENABLED;
        change(step, "tracefs_options", format_text(path, sizeof(path), "options/%s", name),
               on ? "1" : "0");
    }
}

static void set_pids(const struct step *step)
{
    const Pb__FtraceConfig *config = step->config;
    if (!config->n_tids_to_trace)
        return;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < config->n_tids_to_trace; i++)
        strbuf_addf(&text, "%s%u", i ? " " : "", config->tids_to_trace[i]);
    if (!text.failed)
        change(step, "tids_to_trace", "set_event_pid", text.text);
}

static void set_syscall_filter(const struct step *step)
{
    const Pb__FtraceConfig *config = step->config;
    CLEANUP(strbuf_done) struct strbuf filter = {0};
    for (size_t i = 0; i < config->n_syscall_events; i++) {
        long number = syscall_number(config->syscall_events[i]);
        if (number < 0)
            log_warning(step->log, "ftrace: syscall_events: this machine has no %s",
                        config->syscall_events[i]);
        else
            strbuf_addf(&filter, "%sid == %ld", filter.size ? " || " : "", number);
    }
    if (!filter.size || filter.failed)
        return;
    change(step, "syscall_events", "events/raw_syscalls/sys_enter/filter", filter.text);
    change(step, "syscall_events", "events/raw_syscalls/sys_exit/filter", filter.text);
}

// -- events --

static bool is_probe_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            return false;
    return *name;
}

static void add_kprobe(const struct step *step, const char *name, bool at_return,
                       enum event_plan_style style)
{
    const char *group = at_return ? EVENT_GROUP_KRETPROBE : EVENT_GROUP_KPROBE;
    struct tracefs *fs = &step->setup->fs;
    CLEANUP(freep) char *line = NULL, *undo = NULL;
    if (!is_probe_name(name)) {
        fail_event(step, group, name, -EINVAL);
        return;
    }
    if (asprintf(&line, "%s:%s/%s %s\n", at_return ? "r" KPROBE_MAX_ACTIVE : "p", group, name,
                 name) < 0 ||
        asprintf(&undo, "-:%s/%s\n", group, name) < 0)
        return;
    int r = tracefs_append_root(fs, "kprobe_events", line, undo);
    if (r == 0 || r == -EEXIST)
        r = event_set_add(step->set, fs->root, group, name, style, NULL);
    if (r < 0)
        fail_event(step, group, name, r);
}

static void add_kprobes(const struct step *step)
{
    const Pb__FtraceConfig *config = step->config;
    for (size_t i = 0; i < config->n_kprobe_events; i++) {
        const Pb__FtraceConfig__KprobeEvent *probe = config->kprobe_events[i];
        const char *name = probe->probe ? probe->probe : "";
        switch (probe->type) {
        case PB__FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE__KPROBE_TYPE_KPROBE:
            add_kprobe(step, name, false, EVENT_PLAN_KPROBE);
            break;
        case PB__FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE__KPROBE_TYPE_KRETPROBE:
            add_kprobe(step, name, true, EVENT_PLAN_KPROBE);
            break;
        case PB__FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE__KPROBE_TYPE_BOTH:
            add_kprobe(step, name, false, EVENT_PLAN_KPROBE_BEGIN);
            add_kprobe(step, name, true, EVENT_PLAN_KPROBE_END);
            break;
        default:
            log_warning(step->log, "ftrace: kprobe_events: %s has no type", name);
        }
    }
}

// Android throttles rss_stat by a trigger of the kernel's histograms.
static void add_rss_stat_trigger(const struct step *step)
{
    static const char trigger[] = "hist:keys=mm_id,member:bucket=size/0x80000:onchange($bucket)."
                                  "rss_stat_throttled(mm_id,curr,member,size)";
    if (!event_set_has(step->set, "synthetic", "rss_stat_throttled"))
        return;
    CLEANUP(freep) char *undo = NULL;
    if (asprintf(&undo, "!%s", trigger) < 0)
        return;
    int r = tracefs_append_root(&step->setup->fs, "events/kmem/rss_stat/trigger", trigger, undo);
    if (r < 0 && r != -EEXIST)
        log_warning(step->log, "ftrace: throttle_rss_stat: %s", strerror(-r));
}

// Record types of the kernel itself (group ftrace) are always on.
static void enable_events(const struct step *step)
{
    vec_foreach(&step->set->chosen, event) {
        char path[256];
        if (str_eq(event->group, "ftrace"))
            continue;
        format_text(path, sizeof(path), "events/%s/%s/enable", event->group, event->name);
        int r = tracefs_change(&step->setup->fs, path, "1");
        if (r < 0 && event_set_records(step->set, event->id))
            fail_event(step, event->group, event->name, r);
        else if (r < 0)
            log_debug(step->log, "ftrace: %s/%s is not switched on: %s", event->group, event->name,
                      strerror(-r));
    }
}

static int write_list(const struct step *step, const char *field, const char *path, char **lines,
                      size_t n)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_add(&text, "", 0);
    for (size_t i = 0; i < n; i++)
        strbuf_addf(&text, "%s\n", lines[i]);
    return text.failed ? -ENOMEM : change(step, field, path, text.text);
}

static void start_function_graph(const struct step *step)
{
    const Pb__FtraceConfig *config = step->config;
    char depth[16];
    if (!config->enable_function_graph)
        return;
    if (config->n_function_filters)
        write_list(step, "function_filters", "set_ftrace_filter", config->function_filters,
                   config->n_function_filters);
    if (config->n_function_graph_roots)
        write_list(step, "function_graph_roots", "set_graph_function", config->function_graph_roots,
                   config->n_function_graph_roots);
    if (config->function_graph_max_depth)
        change(step, "function_graph_max_depth", "max_graph_depth",
               format_text(depth, sizeof(depth), "%u", config->function_graph_max_depth));
    int r = tracefs_change(&step->setup->fs, "current_tracer", "function_graph");
    if (r < 0) {
        fail_event(step, "ftrace", "funcgraph_entry", r);
        fail_event(step, "ftrace", "funcgraph_exit", r);
    }
}

// -- the buffer --

static bool root_has(const char *root, const char *path)
{
    CLEANUP(freep) char *full = NULL;
    return asprintf(&full, "%s/%s", root, path) >= 0 && access(full, F_OK) == 0;
}

static bool needs_main_buffer(const char *root, const Pb__FtraceConfig *config,
                              const struct event_set *set)
{
    if (config->instance_name && *config->instance_name)
        return false;
    return config->preserve_ftrace_buffer || config->enable_function_graph ||
           (set->print_id && !root_has(root, MARKER_COPIES));
}

static int check_unused(const struct setup *setup, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf tracer = {0};
    int r = tracefs_read(&setup->fs, "current_tracer", &tracer);
    if (r < 0)
        return 0; // without the file, no tracer can be set
    tracefs_setting(&tracer);
    if (!tracer.text || str_eq(tracer.text, "nop"))
        return 0;
    err_set(err, -EBUSY, "%s is in use: its current_tracer is %s", setup->fs.path, tracer.text);
    return err_hint(err, -EBUSY, "echo nop > %s/current_tracer, or give an instance_name",
                    setup->fs.path);
}

int setup_read_layout(const char *root, struct page_layout *ret, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (tracefs_read_at(&text, "%s/events/header_page", root) == 0)
        return page_layout_parse(text.text, text.size, ret, err);
    *ret = page_layout_default(sizeof(long), (size_t)sysconf(_SC_PAGESIZE));
    return 0;
}

// The kernel sends texts to the main buffer first, and to no instance while the main buffer is off.
// Another program may want the main buffer off, so the main buffer is not switched on here.
static void copy_markers(const struct step *step)
{
    const char *root = step->setup->fs.root;
    CLEANUP(strbuf_done) struct strbuf main_on = {0};
    change(step, "ftrace/print", MARKER_COPIES, "1");
    if (tracefs_read_at(&main_on, "%s/tracing_on", root) == 0 && str_starts_with(main_on.text, "0"))
        log_warning(step->log,
                    "ftrace: ftrace/print: the kernel takes no texts for trace_marker while its "
                    "main buffer is off; to get them: echo 1 > %s/tracing_on",
                    root);
}

static int apply(const struct step *step, const struct page_layout *layout, struct err *err)
{
    struct setup *setup = step->setup;
    bool preserve = step->config->preserve_ftrace_buffer;
    int r = preserve || setup->fs.created ? 0 : check_unused(setup, err);
    if (r < 0)
        return r;
    if (!preserve) {
        r = tracefs_change(&setup->fs, "tracing_on", "0");
        if (r < 0)
            return err_errno(err, r, "%s/tracing_on", setup->fs.path);
        if (!setup->fs.created)
            tracefs_clear(&setup->fs);
    }
    set_clock(step);
    choose_buffer_size(step);
    read_page_size(step, layout);
    set_options(step);
    set_pids(step);
    if (step->config->tracing_cpumask && *step->config->tracing_cpumask)
        change(step, "tracing_cpumask", "tracing_cpumask", step->config->tracing_cpumask);
    if (step->config->drain_buffer_percent) {
        char percent[16];
        change(step, "drain_buffer_percent", "buffer_percent",
               format_text(percent, sizeof(percent), "%u", step->config->drain_buffer_percent));
    }
    if (step->set->print_id && !str_eq(setup->fs.path, setup->fs.root))
        copy_markers(step);
    add_kprobes(step);
    add_rss_stat_trigger(step);
    set_syscall_filter(step);
    return 0;
}

bool setup_is_own(const struct source_roots *roots, const Pb__FtraceConfig *config,
                  const struct event_set *set)
{
    return !(config->instance_name && *config->instance_name) &&
           !needs_main_buffer(roots->tracefs, config, set);
}

int setup_open(const struct source_roots *roots, const Pb__FtraceConfig *config,
               struct event_set *set, uint64_t most_kb, const struct log *log, struct setup *ret,
               struct err *err)
{
    struct setup setup = {.fs.journal_fd = -1};
    struct tracefs_options options = {
        .root = roots->tracefs,
        .proc = roots->proc,
        .state_dir = roots->run ? roots->run : TRACEFS_STATE_DIR,
        .instance = config->instance_name && *config->instance_name ? config->instance_name : NULL,
        .main_buffer = needs_main_buffer(roots->tracefs, config, set),
    };
    struct page_layout layout;
    int r = setup_read_layout(roots->tracefs, &layout, err);
    if (r < 0)
        return r;
    tracefs_sweep(options.root, options.proc, options.state_dir, log);
    r = tracefs_open(&options, &setup.fs, err);
    if (r < 0)
        return r;
    struct step step = {
        .setup = &setup, .config = config, .set = set, .most_kb = most_kb, .log = log};
    r = apply(&step, &layout, err);
    if (r < 0)
        setup_close(&setup, log);
    else
        *ret = setup;
    return r;
}

void setup_enable(struct setup *setup, const Pb__FtraceConfig *config, struct event_set *set,
                  const struct log *log)
{
    struct step step = {.setup = setup, .config = config, .set = set, .log = log};
    enable_events(&step);
    start_function_graph(&step);
}

int setup_switch(struct setup *setup, bool on)
{
    return tracefs_change(&setup->fs, "tracing_on", on ? "1" : "0");
}

void setup_close(struct setup *setup, const struct log *log)
{
    if (!setup->fs.root)
        return;
    tracefs_close(&setup->fs, log);
}
