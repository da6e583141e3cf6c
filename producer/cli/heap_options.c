// SPDX-License-Identifier: Apache-2.0
//
// The flags are the flags of Perfetto's heap_profile, which some users know by heart. The arguments
// after "--" are a program to run. All its child processes are profiled too: the config selects
// `all` processes that connect to this recorder.
#include "producer/cli/heap_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/record_options.h"

#define BUFFER_KB        (128u << 10)
#define INTERVAL_DEFAULT 4096
#define SHMEM_DEFAULT    (UINT64_C(8) << 20)

enum { IDS, NAMES, HEAPS };

static int take_list(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct heap_options *o = userdata;
    return option->id == IDS
               ? list_pids_take(&o->pids, value, err)
               : list_names_take(option->id == NAMES ? &o->names : &o->heaps, value, err);
}

static int take_block(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    (void)value;
    (void)err;
    ((struct heap_options *)userdata)->no_block = option->id;
    return 0;
}

static int refuse_operand(void *userdata, const struct cli_option *option, const char *value,
                          struct err *err)
{
    (void)userdata;
    (void)option;
    err_set(err, -EINVAL, "\"%s\": not an option", value);
    return err_hint(err, -EINVAL, "a program to run comes after --");
}

#define SETS(member) CLI_SETS(struct heap_options, member)

static const struct cli_option options_table[] = {
    {'n', "name", "NAMES", "programs to profile, separated by commas; * is a glob",
     .take = take_list, .id = NAMES},
    {'p', "pid", "PIDS", "processes to profile, separated by commas", .take = take_list, .id = IDS},
    {'i', "interval", "BYTES",
     "take one sample for BYTES allocated bytes, on average (default 4096; 1: every allocation)",
     SETS(interval_bytes), .min = 1},
    {'d', "duration", "MS",
     "stop after MS milliseconds; default: when the program or the last of PIDS ends, or at Ctrl-C",
     SETS(duration_ms)},
    {'c', "continuous-dump", "MS", "write a dump every MS milliseconds", SETS(continuous_ms)},
    {0, "shmem-size", "SIZE", "buffer between program and recorder, a power of two (default 8mb)",
     SETS(shmem_bytes), .min = 1},
    {0, "block-client", NULL, "a program whose buffer is full waits (default)", .take = take_block,
     .id = false},
    {0, "no-block-client", NULL,
     "a program whose buffer is full goes on; samples that do not fit are lost and counted",
     .take = take_block, .id = true},
    {0, "block-client-timeout", "US", "after a wait of US microseconds, never wait again",
     SETS(block_timeout_us)},
    {0, "all-heaps", NULL, "also record programs' own heaps (mmheap.h)", SETS(all_heaps)},
    {0, "heaps", "NAMES",
     "record only these heaps; malloc's is libc.malloc, a Java VM's is com.android.art",
     .take = take_list, .id = HEAPS},
    {0, "dump-at-max", NULL, "show the moment when most was allocated, not the end",
     SETS(dump_at_max)},
    {0, "no-running", NULL, "profile only processes that start later", SETS(no_running)},
    {0, "no-startup", NULL, "profile only processes that run already", SETS(no_startup)},
    {0, "no-children", NULL, "give children after fork no profiles of their own",
     SETS(no_children)},
    {'l', "lines", NULL, "add inlined functions and source lines, by mmsql", SETS(lines)},
    {0, "snapshot", NULL,
     "record nothing; make running recordings write a dump now (--pid: only those of PIDS)",
     SETS(snapshot)},
    {0, "print-config", NULL, "print the trace config and do nothing", SETS(print_config)},
    {'o', "out", "FILE",
     "the trace (default heap_profile.pftrace); - is standard output, and the command's own output "
     "goes to standard error then",
     SETS(out_path)},
    {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},
    // Flags of heap_profile. Their effect is the default here.
    {0, "output", "FILE", NULL, SETS(out_path)},
    {0, "no-start"},
    {0, "disable-fork-teardown"},
    {0, "no-annotations"},
    {0, "idle-allocations",
     .refusal = "whether memory is used is not recorded, only that it is allocated"},
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct heap_options *o = userdata;
    bool names_some = o->pids.n > 0 || o->names.n > 0;
    const struct cli_rule rules[] = {
        {o->snapshot && (o->command || o->names.n > 0),
         "--snapshot: recorders are found by --pid alone"},
        {!o->snapshot && o->command && names_some, "either a program to run, or --pid and --name"},
        {!o->snapshot && !o->command && !names_some, "nothing to profile",
         "mmtrace heap -- COMMAND, or --pid, or --name"},
        {!o->snapshot && o->block_timeout_us && o->no_block,
         "--block-client-timeout: has no effect with --no-block-client"},
        {0},
    };
    return cli_check(rules, err);
}

const struct cli_command heap_command = {
    .program = CLI_PROGRAM,
    .verb = "heap",
    .usage = "usage: mmtrace heap [OPTION...] -- COMMAND [ARGUMENT...]\n"
             "       mmtrace heap [OPTION...] --pid PIDS | --name NAMES\n"
             "       mmtrace heap --snapshot [--pid PIDS]\n"
             "\n"
             "Records which functions of native programs allocate memory, and how much of this\n"
             "memory is not freed. The trace has sampled call stacks. A table of the largest\n"
             "functions is printed at the end.\n"
             "\n",
    .more = "\n"
            "mmtrace profiles COMMAND, and every program that COMMAND starts, from the first\n"
            "allocation. mmtrace attaches to processes that run already, which go on as\n"
            "before.\n"
            "\n"
            "Examples:\n"
            "  mmtrace heap -- sqlite3 test.db '.read load.sql'\n"
            "  mmtrace heap -p 1234 -d 10000\n"
            "  mmtrace heap -i 512 -c 1000 -o leak.pftrace -- ./server\n"
            "\n"
            "Exit code: 0 recorded, 1 failed, 2 wrong usage.\n",
    .options = options_table,
    .operand = refuse_operand,
    .check = check,
};

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
    return cli_command_parse(&heap_command, n, argv, ret, err);
}

void heap_options_done(struct heap_options *options)
{
    list_names_free(&options->names);
    list_names_free(&options->heaps);
    list_pids_done(&options->pids);
}

static void add_flag(struct strbuf *text, const char *field, bool value)
{
    if (value)
        strbuf_addf(text, " %s: true", field);
}

int heap_options_config(const struct heap_options *o, struct config *ret, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    strbuf_addf(&text, "buffers { size_kb: %u }\n", BUFFER_KB);
    if (o->duration_ms > 0)
        strbuf_addf(&text, "duration_ms: %" PRIu32 "\n", o->duration_ms);
    strbuf_addf(&text,
                "data_sources { config { name: \"linux.process_stats\" } }\n"
                "data_sources { config { name: \"android.heapprofd\" heapprofd_config {"
                " sampling_interval_bytes: %" PRIu64 " shmem_size_bytes: %" PRIu64
                " block_client: %s",
                o->interval_bytes, o->shmem_bytes, o->no_block ? "false" : "true");
    if (o->block_timeout_us > 0)
        strbuf_addf(&text, " block_client_timeout_us: %" PRIu32, o->block_timeout_us);
    add_flag(&text, "all_heaps", o->all_heaps);
    add_flag(&text, "dump_at_max", o->dump_at_max);
    add_flag(&text, "no_running", o->no_running || o->command);
    add_flag(&text, "no_startup", o->no_startup);
    add_flag(&text, "no_children", o->no_children);
    add_flag(&text, "all", o->command);
    vec_foreach(&o->pids, pid)
        strbuf_addf(&text, " pid: %" PRIu64, *pid);
    vec_foreach(&o->names, name)
        light_config_add_string(&text, "process_cmdline", *name);
    vec_foreach(&o->heaps, name)
        light_config_add_string(&text, "heaps", *name);
    if (o->continuous_ms > 0)
        strbuf_addf(&text, " continuous_dump_config { dump_interval_ms: %" PRIu32 " }",
                    o->continuous_ms);
    // The source records the perf maps of the profiled processes.
    strbuf_add_str(&text, " } } }\ndata_sources { config { name: \"linux.perf_map\" } }\n");
    return light_config_load(&text, ret, err);
}
