// SPDX-License-Identifier: Apache-2.0
//
// The flags are those of Perfetto's heap_profile, which some users know by heart. The arguments
// behind "--" are a program to run. All processes that it starts are profiled too, so its config
// selects `all` processes: those that come to this recorder.
#include "producer/cli/heap_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/ground/options.h"

#define N_SOURCES        3
#define BUFFER_KB        (128u << 10)
#define INTERVAL_DEFAULT 4096
#define SHMEM_DEFAULT    (UINT64_C(8) << 20)

enum {
    OPTION_NAME = 1,
    OPTION_PID,
    OPTION_INTERVAL,
    OPTION_DURATION,
    OPTION_CONTINUOUS,
    OPTION_SHMEM,
    OPTION_BLOCK,
    OPTION_NO_BLOCK,
    OPTION_BLOCK_TIMEOUT,
    OPTION_ALL_HEAPS,
    OPTION_HEAPS,
    OPTION_DUMP_AT_MAX,
    OPTION_NO_RUNNING,
    OPTION_NO_STARTUP,
    OPTION_SNAPSHOT,
    OPTION_PRINT_CONFIG,
    OPTION_OUT,
    OPTION_QUIET,
    OPTION_HELP,
    OPTION_OUTPUT,
    OPTION_NO_START,
    OPTION_NO_FORK_TEARDOWN,
    OPTION_NO_ANNOTATIONS,
    OPTION_IDLE,
};

static const struct cli_option options_table[] = {
    {OPTION_NAME, 'n', "name", "NAMES", "programs to profile, separated by commas; * is a glob"},
    {OPTION_PID, 'p', "pid", "PIDS", "processes to profile, separated by commas"},
    {OPTION_INTERVAL, 'i', "interval", "BYTES",
     "take one sample for BYTES allocated bytes, on average\n(default 4096; 1: every allocation)"},
    {OPTION_DURATION, 'd', "duration", "MS",
     "stop after MS milliseconds; default: when the program\nends, or at Ctrl-C"},
    {OPTION_CONTINUOUS, 'c', "continuous-dump", "MS", "write a dump every MS milliseconds"},
    {OPTION_SHMEM, 0, "shmem-size", "SIZE",
     "buffer between program and recorder, a power of two\n(default 8mb)"},
    {OPTION_BLOCK, 0, "block-client", NULL, "a program whose buffer is full waits (default)"},
    {OPTION_NO_BLOCK, 0, "no-block-client", NULL,
     "a program whose buffer is full goes on; samples that\ndo not fit are lost and counted"},
    {OPTION_BLOCK_TIMEOUT, 0, "block-client-timeout", "US",
     "a program waits at most US microseconds, and then\nnot any more"},
    {OPTION_ALL_HEAPS, 0, "all-heaps", NULL,
     "also record the heaps that programs have of their own\n(mmheap.h)",
     .sets = CLI_SETS(struct heap_options, all_heaps)},
    {OPTION_HEAPS, 0, "heaps", "NAMES",
     "record only these heaps; malloc's is libc.malloc, a\nJava VM's is com.android.art"},
    {OPTION_DUMP_AT_MAX, 0, "dump-at-max", NULL,
     "show the moment when most was allocated,\nnot the end",
     .sets = CLI_SETS(struct heap_options, dump_at_max)},
    {OPTION_NO_RUNNING, 0, "no-running", NULL, "profile only processes that start later",
     .sets = CLI_SETS(struct heap_options, no_running)},
    {OPTION_NO_STARTUP, 0, "no-startup", NULL, "profile only processes that run already",
     .sets = CLI_SETS(struct heap_options, no_startup)},
    {OPTION_SNAPSHOT, 0, "snapshot", NULL,
     "record nothing: have the profiles that are being\nrecorded (--pid: of these processes) "
     "dumped now",
     .sets = CLI_SETS(struct heap_options, snapshot)},
    {OPTION_PRINT_CONFIG, 0, "print-config", NULL, "print the trace config and do nothing",
     .sets = CLI_SETS(struct heap_options, print_config)},
    {OPTION_OUT, 'o', "out", "FILE",
     "the trace (default heap_profile.pftrace); - is standard\noutput, and the command's own "
     "output goes to standard\nerror then"},
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors",
     .sets = CLI_SETS(struct heap_options, quiet)},
    {OPTION_HELP, 'h', "help", NULL, "this text", .sets = CLI_SETS(struct heap_options, help)},
    // As in heap_profile. Their effect is the default here.
    {OPTION_OUTPUT, 0, "output", "FILE", NULL},
    {OPTION_NO_START, 0, "no-start", NULL, NULL},
    {OPTION_NO_FORK_TEARDOWN, 0, "disable-fork-teardown", NULL, NULL},
    {OPTION_NO_ANNOTATIONS, 0, "no-annotations", NULL, NULL},
    {OPTION_IDLE, 0, "idle-allocations", NULL, NULL,
     .refusal = "whether memory is used is not recorded, only that it is allocated"},
    {0},
};

static int take_words(const char *text, int (*take)(struct heap_options *, char *, struct err *),
                      struct heap_options *options, struct err *err)
{
    char *copy = strdup(text), *rest = copy;
    int r = copy ? 0 : -ENOMEM;
    for (char *word; r == 0 && (word = strsep(&rest, ","));)
        if (*word)
            r = take(options, word, err);
    free(copy);
    return r;
}

static int take_pid(struct heap_options *options, char *word, struct err *err)
{
    uint64_t pid;
    if (str_parse_u64(word, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return err_set(err, -EINVAL, "--pid: \"%s\" is not a process id", word);
    return heap_pid_vec_push(&options->pids, pid);
}

static int keep_name(struct heap_name_vec *names, const char *word)
{
    char *copy = strdup(word);
    int r = copy ? heap_name_vec_push(names, copy) : -ENOMEM;
    if (r < 0)
        free(copy);
    return r;
}

static int take_name(struct heap_options *options, char *word, struct err *err)
{
    (void)err;
    return keep_name(&options->names, word);
}

static int take_heap(struct heap_options *options, char *word, struct err *err)
{
    (void)err;
    return keep_name(&options->heaps, word);
}

static int take_u32(const char *name, const char *value, uint32_t *ret, struct err *err)
{
    if (str_parse_u32(value, ret) < 0)
        return err_set(err, -EINVAL, "--%s: \"%s\" is not a number", name, value);
    return 0;
}

static int take_size(const char *name, const char *value, uint64_t *ret, struct err *err)
{
    if (str_parse_size(value, ret) < 0 || *ret == 0)
        return err_set(err, -EINVAL, "--%s: \"%s\" is not a size", name, value);
    return 0;
}

static int take_option(void *userdata, int id, const char *value, struct err *err)
{
    struct heap_options *o = userdata;
    switch (id) {
    case 0:
        err_set(err, -EINVAL, "\"%s\": not an option", value);
        return err_hint(err, -EINVAL, "a program to run comes behind --");
    case OPTION_NAME:
        return take_words(value, take_name, o, err);
    case OPTION_PID:
        return take_words(value, take_pid, o, err);
    case OPTION_HEAPS:
        return take_words(value, take_heap, o, err);
    case OPTION_INTERVAL:
        return take_size("interval", value, &o->interval_bytes, err);
    case OPTION_SHMEM:
        return take_size("shmem-size", value, &o->shmem_bytes, err);
    case OPTION_DURATION:
        return take_u32("duration", value, &o->duration_ms, err);
    case OPTION_CONTINUOUS:
        return take_u32("continuous-dump", value, &o->continuous_ms, err);
    case OPTION_BLOCK_TIMEOUT:
        return take_u32("block-client-timeout", value, &o->block_timeout_us, err);
    case OPTION_BLOCK:
        o->no_block = false;
        return 0;
    case OPTION_NO_BLOCK:
        o->no_block = true;
        return 0;
    case OPTION_OUT:
    case OPTION_OUTPUT:
        o->out_path = value;
        return 0;
    default:
        return 0;
    }
}

static int check(const struct heap_options *o, struct err *err)
{
    bool names_some = o->pids.n > 0 || o->names.n > 0;
    if (o->help)
        return 0;
    if (o->snapshot && (o->command || o->names.n > 0))
        return err_set(err, -EINVAL, "--snapshot: recorders are found by --pid alone");
    if (o->snapshot)
        return 0;
    if (o->command && names_some)
        return err_set(err, -EINVAL, "either a program to run, or --pid and --name");
    if (!o->command && !names_some) {
        err_set(err, -EINVAL, "nothing to profile");
        return err_hint(err, -EINVAL, "mmtrace heap -- COMMAND, or --pid, or --name");
    }
    if (o->block_timeout_us && o->no_block)
        return err_set(err, -EINVAL,
                       "--block-client-timeout: has no effect with --no-block-client");
    return 0;
}

int heap_options_parse(int argc, char **argv, struct heap_options *ret, struct err *err)
{
    *ret = (struct heap_options){
        .interval_bytes = INTERVAL_DEFAULT,
        .shmem_bytes = SHMEM_DEFAULT,
        .out_path = "heap_profile.pftrace",
    };
    int n = 1;
    while (n < argc && !str_eq(argv[n], "--"))
        n++;
    if (n + 1 < argc)
        ret->command = &argv[n + 1];
    int r = cli_options_parse(options_table, n, argv, take_option, ret, err);
    return r == 0 ? check(ret, err) : r;
}

void heap_options_done(struct heap_options *options)
{
    vec_foreach(&options->names, name)
        free(*name);
    vec_foreach(&options->heaps, name)
        free(*name);
    heap_name_vec_done(&options->names);
    heap_name_vec_done(&options->heaps);
    heap_pid_vec_done(&options->pids);
}

void heap_options_print_help(void)
{
    printf("usage: mmtrace heap [OPTION...] -- COMMAND [ARGUMENT...]\n"
           "       mmtrace heap [OPTION...] --pid PIDS | --name NAMES\n"
           "       mmtrace heap --snapshot [--pid PIDS]\n"
           "\n"
           "Records which functions of native programs allocate memory, and how much of this\n"
           "memory is not freed. The trace has sampled call stacks. A table of the largest\n"
           "functions is printed at the end.\n"
           "\n");
    cli_options_print(options_table, stdout);
    printf("\n"
           "mmtrace profiles COMMAND, and every program that COMMAND starts, from the first\n"
           "allocation. mmtrace attaches to processes that run already, which go on as\n"
           "before.\n"
           "\n"
           "Examples:\n"
           "  mmtrace heap -- sqlite3 test.db '.read load.sql'\n"
           "  mmtrace heap -p 1234 -d 10000\n"
           "  mmtrace heap -i 512 -c 1000 -o leak.pftrace -- ./server\n"
           "\n"
           "Exit code: 0 recorded, 1 failed, 2 wrong usage.\n");
}

// Config.

struct messages {
    Pb__TraceConfig trace;
    Pb__TraceConfig__BufferConfig buffer, *buffers[1];
    Pb__HeapprofdConfig heap;
    Pb__HeapprofdConfig__ContinuousDumpConfig dump;
    Pb__DataSourceConfig sources[N_SOURCES];
    Pb__TraceConfig__DataSource entries[N_SOURCES], *entry_ptrs[N_SOURCES];
};

static void set_heap(const struct heap_options *o, struct messages *m)
{
    pb__heapprofd_config__init(&m->heap);
    m->heap.has_sampling_interval_bytes = true;
    m->heap.sampling_interval_bytes = o->interval_bytes;
    m->heap.has_shmem_size_bytes = true;
    m->heap.shmem_size_bytes = o->shmem_bytes;
    m->heap.has_block_client = true;
    m->heap.block_client = !o->no_block;
    m->heap.has_block_client_timeout_us = o->block_timeout_us > 0;
    m->heap.block_client_timeout_us = o->block_timeout_us;
    m->heap.has_all_heaps = m->heap.all_heaps = o->all_heaps;
    m->heap.has_dump_at_max = m->heap.dump_at_max = o->dump_at_max;
    m->heap.has_no_running = m->heap.no_running = o->no_running || o->command;
    m->heap.has_no_startup = m->heap.no_startup = o->no_startup;
    m->heap.has_all = m->heap.all = o->command != NULL;
    m->heap.n_pid = o->pids.n;
    m->heap.pid = o->pids.items;
    m->heap.n_process_cmdline = o->names.n;
    m->heap.process_cmdline = o->names.items;
    m->heap.n_heaps = o->heaps.n;
    m->heap.heaps = o->heaps.items;
    if (o->continuous_ms > 0) {
        pb__heapprofd_config__continuous_dump_config__init(&m->dump);
        m->dump.has_dump_interval_ms = true;
        m->dump.dump_interval_ms = o->continuous_ms;
        m->heap.continuous_dump_config = &m->dump;
    }
}

int heap_options_config(const struct heap_options *o, struct config *ret, struct err *err)
{
    struct messages m;
    pb__trace_config__init(&m.trace);
    pb__trace_config__buffer_config__init(&m.buffer);
    set_heap(o, &m);
    m.buffer.has_size_kb = true;
    m.buffer.size_kb = BUFFER_KB;
    m.buffers[0] = &m.buffer;
    m.trace.n_buffers = 1;
    m.trace.buffers = m.buffers;
    m.trace.has_duration_ms = o->duration_ms > 0;
    m.trace.duration_ms = o->duration_ms;
    for (size_t i = 0; i < N_SOURCES; i++) {
        pb__data_source_config__init(&m.sources[i]);
        pb__trace_config__data_source__init(&m.entries[i]);
        m.entries[i].config = &m.sources[i];
        m.entry_ptrs[i] = &m.entries[i];
    }
    m.sources[0].name = "linux.process_stats";
    m.sources[1].name = "android.heapprofd";
    m.sources[2].name = "linux.perf_map"; // of the profiled processes
    m.sources[1].heapprofd_config = &m.heap;
    m.trace.n_data_sources = N_SOURCES;
    m.trace.data_sources = m.entry_ptrs;
    Pb__TraceConfig *copy = config_copy_message(&m.trace);
    return copy ? config_from_message(copy, ret, err) : err_errno(err, -ENOMEM, "config");
}
