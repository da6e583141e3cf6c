// SPDX-License-Identifier: Apache-2.0
//
// System calls as slices of the calling thread. A marker arrives in the middle of the thread's
// write(2) into trace_marker. A slice that begins or ends at the marker would overlap the slice of
// the call, so the slice of the call ends at the marker.
#include "converter/import/ftrace/syscalls.h"

#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "protos/fields.h"

struct syscalls {
    struct map64 writing;              // threads that are in write(2)
    const char *architecture;          // of `names`
    const struct syscall_names *names; // NULL: not known
};

// Returns the names for a machine, by the machine's name in uname(2); NULL: not known.
static const struct syscall_names *names_of(const char *machine)
{
    static const struct {
        const char *machine;
        const struct syscall_names *names;
    } machines[] = {
        {"aarch64", &syscall_names_arm64}, {"armv8l", &syscall_names_arm32},
        {"armv7l", &syscall_names_arm32},  {"x86_64", &syscall_names_x86_64},
        {"i686", &syscall_names_x86},
    };
    for (size_t i = 0; i < ELEMENTS(machines); i++)
        if (machine && str_eq(machines[i].machine, machine))
            return machines[i].names;
    return NULL;
}

static struct slice_name syscall_name(struct import *im, struct syscalls *syscalls, uint32_t number)
{
    if (syscalls->architecture != im->machine->architecture) {
        syscalls->architecture = im->machine->architecture;
        syscalls->names = names_of(syscalls->architecture);
    }
    const struct syscall_names *all = syscalls->names;
    const char *name = all && number < all->n ? all->names[number] : NULL;
    return name ? slice_name(name) : import_text(im, "sys_%u", number);
}

static void sys_enter(struct import *im, const struct ftrace_event *event)
{
    struct syscalls *syscalls = event->own;
    enum { ARGS_MAX = 8 };
    static const char *const keys[ARGS_MAX] = {
        "args[0]", "args[1]", "args[2]", "args[3]", "args[4]", "args[5]", "args[6]", "args[7]",
    };
    uint32_t number = (uint32_t)ftrace_int(event, "id");
    int64_t utid = processes_thread(&im->processes, event->pid);
    if (number >= SYSCALLS_MAX)
        return;
    struct arg args[ARGS_MAX];
    size_t n = 0;
    struct values values = values_of(&event->message, PB_SysEnterFtraceEvent_args);
    uint64_t value;
    for (; n < ARGS_MAX && values_next(&values, &value); n++) {
        args[n] = arg_uint(keys[n], value);
        args[n].flat_key = "args";
    }
    struct slice_spec spec = {
        .ts = event->ts,
        .track = thread_track_get(im, utid),
        .name = syscall_name(im, syscalls, number),
        .args = args,
        .n_args = n,
    };
    if (name_is(spec.name, "sys_rt_sigreturn")) // the call does not return
        slice_add(&im->slices, &spec);
    else
        slice_begin(&im->slices, &spec);
    if (name_is(spec.name, "sys_write"))
        import_fail(im, map64_set(&syscalls->writing, (uint64_t)utid, 1));
}

static void sys_exit(struct import *im, const struct ftrace_event *event)
{
    struct syscalls *syscalls = event->own;
    uint32_t number = (uint32_t)ftrace_int(event, "id");
    int64_t utid = processes_thread(&im->processes, event->pid);
    if (number >= SYSCALLS_MAX)
        return;
    struct arg ret = arg_int("ret", ftrace_int(event, "ret"));
    struct slice_spec spec = {
        .ts = event->ts,
        .name = syscall_name(im, syscalls, number),
        .args = &ret,
        .n_args = ftrace_has(event, "ret"),
    };
    // The trace lacks the start of the call, or the slice has ended already.
    if (name_is(spec.name, "sys_write") && !map64_remove(&syscalls->writing, (uint64_t)utid))
        return;
    spec.track = thread_track_get(im, utid);
    slice_end(&im->slices, &spec);
}

static const struct ftrace_form forms[] = {
    {"sys_enter", FORM_CALL(sys_enter)},
    {"sys_exit", FORM_CALL(sys_exit)},
    {0},
};

const struct ftrace_subject ftrace_syscalls = {
    .forms = forms,
    .state_size = sizeof(struct syscalls),
    .n_maps = 1,
};

void ftrace_end_write(struct import *im, const struct ftrace_event *event)
{
    struct syscalls *syscalls = ftrace_state(im, &ftrace_syscalls);
    int64_t utid = processes_find_thread(&im->processes, event->pid);
    if (utid == UTID_NONE || !map64_remove(&syscalls->writing, (uint64_t)utid))
        return;
    stats_add(&im->stats, STAT_truncated_sys_write_duration, 1);
    struct slice_spec spec = {
        .ts = event->ts, .track = thread_track_get(im, utid), .name = slice_name("sys_write")};
    slice_end(&im->slices, &spec);
}
