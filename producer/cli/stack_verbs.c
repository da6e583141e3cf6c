// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace cpu` and `mmtrace faults`: sampled call stacks with one command. The session runs in
// this process. A program under test waits until the session has begun, and its end ends the
// recording.
#include <errno.h>
#include <stdio.h>

#include "common/memory.h"
#include "producer/cli/cli.h"
#include "producer/cli/profile_run.h"
#include "producer/cli/stacks_options.h"
#include "producer/cli/stacks_summary.h"
#include "producer/foreign/helper.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/process_life.h"
#include "producer/service/session/session.h"
#include "producer/sources/heap/heap_host.h"

struct stacks_run {
    const struct cli_command *command;
    struct profile_run run;
    struct stacks_options options;
    struct loop_timer *look_timer; // looks whether the given processes are still there
};

#define LOOK_PERIOD (250 * NSEC_PER_MSEC)

static bool is_alive(uint64_t pid)
{
    struct process_life life;
    int r = pid <= INT32_MAX ? process_life_in_time("/proc", (int32_t)pid, &life) : -ESRCH;
    return process_file_is_late(r) || (r == 0 && !life.ended);
}

static int check_processes(const struct stacks_options *o, struct err *err)
{
    vec_foreach(&o->pids, pid)
        if (!is_alive(*pid))
            return err_set(err, -ESRCH, "process %llu: there is no such process",
                           (unsigned long long)*pid);
    return 0;
}

// The recording of given processes ends with the last of these.
static void look_at_processes(void *userdata)
{
    struct stacks_run *stacks = userdata;
    vec_foreach(&stacks->options.pids, pid)
        if (is_alive(*pid))
            return;
    stacks->look_timer = loop_remove_timer(stacks->look_timer);
    session_stop(stacks->run.session);
}

static int watch_processes(struct stacks_run *stacks, struct err *err)
{
    const struct stacks_options *o = &stacks->options;
    if (o->pids.n > 0 && o->names.n == 0 &&
        loop_add_timer(stacks->run.here.loop, nsec_now(CLOCK_BOOTTIME) + LOOK_PERIOD, LOOK_PERIOD,
                       look_at_processes, stacks, &stacks->look_timer) < 0)
        return err_set(err, -ENOMEM, "timer");
    if (!o->quiet && !o->command && !o->duration_ms)
        fprintf(stderr, CLI_PROGRAM ": samples %s; Ctrl-C ends the recording\n",
                o->pids.n > 0 || o->names.n > 0 ? "the given processes" : "all processes");
    return 0;
}

static int make_config(struct stacks_run *stacks, struct err *err)
{
    struct profile_run *run = &stacks->run;
    bool has_tracepoints = run->here.roots.tracefs != NULL;
    return stacks_options_config(stacks->command, &stacks->options, run->child, has_tracepoints,
                                 &run->config, err);
}

static int record(struct stacks_run *stacks, struct err *err)
{
    struct profile_run *run = &stacks->run;
    struct heap_host_options host = {.is_private = true, .is_alone = true};
    int r = profile_run_open(run, err);
    if (r == 0 && run->command)
        r = profile_run_start(run, NULL, NULL, err);
    if (r == 0)
        r = recording_help(&run->here, &host, err);
    if (r == 0)
        r = make_config(stacks, err);
    if (r == 0)
        r = profile_run_open_session(run, err);
    if (r == 0)
        r = profile_run_start_session(run, err);
    if (r == 0)
        r = watch_processes(stacks, err);
    if (r == 0)
        profile_run_release(run);
    return r == 0 ? profile_run_session(run, err) : r;
}

static int publish(struct stacks_run *stacks, struct err *err)
{
    struct profile_run *run = &stacks->run;
    uint64_t n_samples = 0;
    char problem[ERR_TEXT_MAX];
    if (!run->quiet && run->command)
        profile_run_tell_end(run);
    profile_run_problem(run, problem, sizeof(problem));
    run->session = session_free(run->session); // the file is complete
    bool has_lines = profile_run_add_lines(run);
    if (profile_run_pour(run, err) < 0)
        return PROGRAM_FAILED;
    int r = stacks_summary_print(profile_run_trace(run), stacks->options.is_dwarf,
                                 run->quiet ? NULL : stderr, &n_samples, err);
    struct err unused = {0}; // the first error counts
    if (profile_run_publish(run, r < 0 || n_samples > 0, r < 0 ? &unused : err) < 0 || r < 0)
        return PROGRAM_FAILED;
    if (problem[0])
        err_set(err, -EREMOTEIO, "%s", problem);
    else if (memory_was_refused())
        err_errno(err, -ENOMEM, "%s", profile_run_name(run));
    else if (n_samples == 0)
        err_set(err, -ENODATA,
                "no sample was taken: the events were too few (record for longer with -d, or "
                "sample more often with -F or -c)");
    return err->text[0] || !has_lines ? PROGRAM_FAILED : PROGRAM_DONE;
}

static int profile(struct stacks_run *stacks, struct err *err)
{
    struct profile_run *run = &stacks->run;
    const struct stacks_options *o = &stacks->options;
    run->out_path = o->out_path;
    run->command = o->command;
    run->quiet = o->quiet;
    run->wants_lines = o->lines;
    run->required_source = "linux.perf";
    if (o->print_config) {
        if (stacks_options_config(stacks->command, o, 0, true, &run->config, err) < 0)
            return PROGRAM_FAILED;
        return recording_print_config(&run->config, err);
    }
    if (check_processes(o, err) < 0 || profile_run_open_output(run, err) < 0)
        return PROGRAM_FAILED;
    if (record(stacks, err) < 0) {
        profile_run_tell_part(run, err);
        return PROGRAM_FAILED;
    }
    return publish(stacks, err);
}

static int stacks_main(const struct cli_command *command, int argc, char **argv)
{
    struct stacks_run stacks = {.command = command};
    struct err err = {0};
    int code;
    profile_run_init(&stacks.run);
    int r = stacks_options_parse(command, argc, argv, &stacks.options, &err);
    if (r != 0) {
        code = cli_command_wrong(command, r, &err);
    } else {
        code = profile(&stacks, &err);
        if (err.text[0])
            err_print(&err, CLI_PROGRAM);
    }
    stacks.run.session = session_free(stacks.run.session);
    stacks.look_timer = loop_remove_timer(stacks.look_timer);
    profile_run_done(&stacks.run);
    stacks_options_done(&stacks.options);
    return code;
}

int cli_cpu(int argc, char **argv)
{
    return stacks_main(&cpu_command, argc, argv);
}

int cli_faults(int argc, char **argv)
{
    return stacks_main(&faults_command, argc, argv);
}
