// SPDX-License-Identifier: Apache-2.0
//
// Each event is a separate data source, so that `mmsql flamegraph --of` can tell events apart. All
// stacks of one command are of the same processes.
#include "producer/cli/stacks_options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/record_options.h"

#define BUFFER_KB         (64u << 10)
#define FREQUENCY_DEFAULT 100
#define PERIOD_DEFAULT    100

static int take_pids(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    (void)option;
    return list_pids_take(&((struct stacks_options *)userdata)->pids, value, err);
}

static int take_names(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    (void)option;
    return list_names_take(&((struct stacks_options *)userdata)->names, value, err);
}

static int take_call_graph(void *userdata, const struct cli_option *option, const char *value,
                           struct err *err)
{
    struct stacks_options *o = userdata;
    (void)option;
    o->is_dwarf = str_eq(value, "dwarf");
    return o->is_dwarf || str_eq(value, "fp")
               ? 0
               : err_set(err, -EINVAL, "--call-graph %s: neither fp nor dwarf", value);
}

static int refuse_operand(void *userdata, const struct cli_option *option, const char *value,
                          struct err *err)
{
    (void)userdata;
    (void)option;
    err_set(err, -EINVAL, "\"%s\": not an option", value);
    return err_hint(err, -EINVAL, "a program to run comes after --");
}

static int check(void *userdata, struct err *err)
{
    const struct stacks_options *o = userdata;
    const struct cli_rule rules[] = {
        {o->command && (o->pids.n > 0 || o->names.n > 0),
         "either a program to run, or --pid and --name"},
        {0},
    };
    return cli_check(rules, err);
}

#define SETS(member) CLI_SETS(struct stacks_options, member)

#define PROCESS_OPTIONS                                                                            \
    {'n', "name", "NAMES", "programs to sample, separated by commas; * is a glob",                 \
     .take = take_names},                                                                          \
        {'p', "pid", "PIDS",                                                                       \
         "processes to sample, separated by commas, with the processes that "                      \
         "they start",                                                                             \
         .take = take_pids},                                                                       \
        {'d', "duration", "MS",                                                                    \
         "stop after MS milliseconds; default: when the program ends, or at Ctrl-C",               \
         SETS(duration_ms)},                                                                       \
        {0, "call-graph", "HOW",                                                                   \
         "fp: follow frame pointers (default); dwarf: follow copied stacks by "                    \
         "unwind tables, for programs without frame pointers, at a higher cost",                   \
         .take = take_call_graph},                                                                 \
    {                                                                                              \
        0, "no-kernel", NULL, "leave out the functions of the kernel", SETS(no_kernel)             \
    }

#define OUTPUT_OPTIONS(default_path)                                                               \
    {'l', "lines", NULL, "add inlined functions and source lines, by mmsql", SETS(lines)},         \
        {0, "print-config", NULL, "print the trace config and do nothing", SETS(print_config)},    \
        {'o', "out", "FILE",                                                                       \
         "the trace (default " default_path "); - is standard output, and the command's own "      \
         "output goes to standard error then",                                                     \
         SETS(out_path)},                                                                          \
        {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},                               \
    {                                                                                              \
        0                                                                                          \
    }

#define MORE                                                                                       \
    "\n"                                                                                           \
    "Without a program, --pid and --name, all processes are sampled. This needs root\n"            \
    "or CAP_PERFMON. Programs without frame pointers have short stacks, unless\n"                  \
    "--call-graph dwarf is given.\n"                                                               \
    "\n"

static const struct cli_option cpu_options[] = {
    {'F', "frequency", "HZ", "samples a second of each CPU (default 100)", SETS(frequency),
     .min = 1},
    PROCESS_OPTIONS,
    OUTPUT_OPTIONS("cpu_profile.pftrace"),
};

static const struct cli_option faults_options[] = {
    {'c', "period", "N", "one sample for N minor faults (default 100); each major fault has one",
     SETS(period), .min = 1},
    {0, "no-reclaim", NULL, "leave out the stacks that made the kernel reclaim or compact memory",
     SETS(no_reclaim)},
    PROCESS_OPTIONS,
    OUTPUT_OPTIONS("faults.pftrace"),
};

const struct cli_command cpu_command = {
    .program = CLI_PROGRAM,
    .verb = "cpu",
    .usage = "usage: mmtrace cpu [OPTION...] -- COMMAND [ARGUMENT...]\n"
             "       mmtrace cpu [OPTION...] [--pid PIDS | --name NAMES]\n"
             "\n"
             "Samples which functions take CPU time, of programs and of the kernel. A table of\n"
             "the functions with the most samples is printed at the end.\n"
             "\n",
    .more = MORE "Examples:\n"
                 "  mmtrace cpu -d 10000\n"
                 "  mmtrace cpu -F 500 -o build.pftrace -- make\n"
                 "  mmtrace cpu --call-graph dwarf -- ./server\n"
                 "  mmsql flamegraph --of cpu cpu_profile.pftrace -o cpu.svg\n"
                 "\n"
                 "Exit code: 0 recorded, 1 failed, 2 wrong usage.\n",
    .options = cpu_options,
    .operand = refuse_operand,
    .check = check,
};

const struct cli_command faults_command = {
    .program = CLI_PROGRAM,
    .verb = "faults",
    .usage = "usage: mmtrace faults [OPTION...] -- COMMAND [ARGUMENT...]\n"
             "       mmtrace faults [OPTION...] [--pid PIDS | --name NAMES]\n"
             "\n"
             "Records which functions touch memory for the first time (minor page faults),\n"
             "wait for the disk (major faults), and make the kernel reclaim or compact memory.\n"
             "Tables of these functions are printed at the end.\n"
             "\n",
    .more = MORE "Examples:\n"
                 "  mmtrace faults -d 10000\n"
                 "  mmtrace faults -c 1 -- sort large.txt\n"
                 "  mmsql flamegraph --of reclaim faults.pftrace -o reclaim.svg\n"
                 "\n"
                 "Exit code: 0 recorded, 1 failed, 2 wrong usage.\n",
    .options = faults_options,
    .operand = refuse_operand,
    .check = check,
};

int stacks_options_parse(const struct cli_command *command, int argc, char **argv,
                         struct stacks_options *ret, struct err *err)
{
    *ret = (struct stacks_options){
        .frequency = FREQUENCY_DEFAULT,
        .period = PERIOD_DEFAULT,
        .out_path = command == &cpu_command ? "cpu_profile.pftrace" : "faults.pftrace",
    };
    int n = 1;
    while (n < argc && !str_eq(argv[n], "--"))
        n++;
    if (n + 1 < argc)
        ret->command = &argv[n + 1];
    return cli_command_parse(command, n, argv, ret, err);
}

void stacks_options_done(struct stacks_options *options)
{
    list_names_free(&options->names);
    list_pids_done(&options->pids);
}

static void add_scope(struct strbuf *text, const struct stacks_options *o, pid_t child)
{
    strbuf_add_str(text, " scope { target_descendants: true");
    vec_foreach(&o->pids, pid)
        strbuf_addf(text, " target_pid: %" PRIu64, *pid);
    vec_foreach(&o->names, name)
        light_config_add_string(text, "target_cmdline", *name);
    if (child > 0)
        strbuf_addf(text, " target_pid: %d", (int)child);
    strbuf_add_str(text, " }");
}

// Adds a data source for one event. `event` is the timebase.
__attribute__((format(printf, 4, 5))) static void
add_source(struct strbuf *text, const struct stacks_options *o, pid_t child, const char *event, ...)
{
    va_list arguments;
    char timebase[256];
    va_start(arguments, event);
    vsnprintf(timebase, sizeof(timebase), event, arguments);
    va_end(arguments);
    strbuf_addf(text,
                "data_sources { config { name: \"linux.perf\" perf_event_config { timebase { %s }"
                " callstack_sampling { kernel_frames: %s user_frames: %s",
                timebase, o->no_kernel ? "false" : "true",
                o->is_dwarf ? "UNWIND_DWARF" : "UNWIND_FRAME_POINTER");
    add_scope(text, o, child);
    strbuf_add_str(text, " } } } }\n");
}

static void add_faults(struct strbuf *text, const struct stacks_options *o, pid_t child,
                       bool has_tracepoints)
{
    static const char *const tracepoints[] = {
        "vmscan:mm_vmscan_direct_reclaim_begin",
        "vmscan:mm_vmscan_memcg_reclaim_begin",
        "compaction:mm_compaction_begin",
    };
    add_source(text, o, child, "counter: SW_PAGE_FAULTS_MIN period: %" PRIu64, o->period);
    add_source(text, o, child, "counter: SW_PAGE_FAULTS_MAJ period: 1");
    for (size_t i = 0; has_tracepoints && !o->no_reclaim && i < ELEMENTS(tracepoints); i++)
        add_source(text, o, child, "tracepoint { name: \"%s\" } period: 1", tracepoints[i]);
}

int stacks_options_config(const struct cli_command *command, const struct stacks_options *o,
                          pid_t child, bool has_tracepoints, struct config *ret, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    strbuf_addf(&text, "buffers { size_kb: %u }\n", BUFFER_KB);
    if (o->duration_ms > 0)
        strbuf_addf(&text, "duration_ms: %" PRIu32 "\n", o->duration_ms);
    strbuf_add_str(&text, "data_sources { config { name: \"linux.process_stats\" } }\n"
                          "data_sources { config { name: \"linux.perf_map\" } }\n");
    if (command == &cpu_command)
        add_source(&text, o, child, "counter: SW_CPU_CLOCK frequency: %" PRIu64, o->frequency);
    else
        add_faults(&text, o, child, has_tracepoints);
    return light_config_load(&text, ret, err);
}
