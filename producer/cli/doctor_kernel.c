// SPDX-License-Identifier: Apache-2.0
//
// The features of the kernel, and the rights of this process. A check tries the call itself where a
// try changes nothing; otherwise it reads the setting.
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pwd.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/cli/doctor.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SECCOMP_MODE_DISABLED
#define SECCOMP_MODE_DISABLED 0
#endif

#define CACHESTAT_SINCE "Linux 6.5"
#define AS_ROOT         "as root: sudo mmtrace record -c CONFIG -o FILE"

void doctor_kernel(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    struct utsname name;
    (void)machine;
    if (uname(&name) == 0)
        doctor_found(ret, "%s %s, %s", name.sysname, name.release, name.machine);
    else
        doctor_found(ret, "unknown: %s", strerror(errno));
#if !defined(__x86_64__)
    doctor_lacks(ret, "mmtrace heap attaches to no running program",
                 "start programs with: mmtrace heap -- COMMAND");
#endif
}

// -- rights --

// The capabilities that recording can need, beside root's user id, and the features that need them.
static const struct {
    unsigned bit;
    const char *name, *costs[3]; // NULL ends the costs
} wanted[] = {
    {2, "DAC_READ_SEARCH", {"files of other users"}},
    {3, "FOWNER", {"residency of other users' files by mincore"}},
    {14, "IPC_LOCK", {"locked memory"}},
    {19, "SYS_PTRACE", {"maps and heaps of other users' processes"}},
    {23, "SYS_NICE", {"raised priority"}},
    {24,
     "SYS_RESOURCE",
     {"thresholds of pressure over less than 2 s", "protection from the OOM killer"}},
    {34, "SYSLOG", {"names of kernel functions"}},
};

#define SYS_ADMIN 21
#define IPC_LOCK  14

static uint64_t capabilities(const char *proc)
{
    char text[4096];
    struct span status = text_file_span(text, sizeof(text), proc, "/self/status");
    struct span value = span_trim(span_value_of(status, "CapEff:"));
    uint64_t bits = 0;
    str_scan_hex(&value.pos, value.end, &bits);
    return bits;
}

// Returns whether the rights of this process hold only in a user namespace, as in containers of
// users without rights. The initial namespace maps all user ids.
static bool is_in_user_namespace(const char *proc)
{
    char text[256];
    struct span map = text_file_span(text, sizeof(text), proc, "/self/uid_map");
    uint64_t inside = 0, outside = 0, n = UINT32_MAX;
    span_take_u64(&map, &inside);
    span_take_u64(&map, &outside);
    span_take_u64(&map, &n);
    return inside != 0 || outside != 0 || n != UINT32_MAX;
}

static void word_add(char *text, size_t size, const char *between, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", between, word);
}

// Writes "no A", or "no A, no B, and no C", of the costs of the capabilities that `has` lacks.
static void costs_write(uint64_t has, char *ret, size_t size)
{
    const char *costs[3 * ELEMENTS(wanted)];
    size_t n = 0;
    for (size_t i = 0; i < ELEMENTS(wanted); i++)
        for (const char *const *cost = wanted[i].costs; *cost && !(has >> wanted[i].bit & 1);
             cost++)
            costs[n++] = *cost;
    ret[0] = '\0';
    for (size_t i = 0; i < n; i++)
        word_add(ret, size, i == 0 ? "no " : i + 1 < n ? ", no " : ", and no ", costs[i]);
}

void doctor_rights(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    uint64_t has = capabilities(machine->proc);
    char missing[DOCTOR_TEXT_MAX - 64] = "", cost[DOCTOR_TEXT_MAX], mend[DOCTOR_TEXT_MAX];
    uid_t uid = geteuid();
    if (uid != 0) {
        struct passwd *entry = getpwuid(uid);
        doctor_found(ret, "%s (user id %u)%s", entry ? entry->pw_name : "a user without a name",
                     (unsigned)uid, has ? ", with capabilities" : "");
        doctor_lacks(ret,
                     "no kernel events; processes and files of this user alone, "
                     "and no daemon that others trust",
                     AS_ROOT);
        return;
    }
    if (is_in_user_namespace(machine->proc)) {
        doctor_found(ret, "root of a user namespace");
        doctor_lacks(
            ret,
            "rights inside of the namespace alone: no kernel events, no locked memory, and "
            "nothing of other users",
            "run as root outside of the namespace or container");
        return;
    }
    for (size_t i = 0; i < ELEMENTS(wanted); i++)
        if (!(has >> wanted[i].bit & 1))
            word_add(missing, sizeof(missing), missing[0] ? " CAP_" : "CAP_", wanted[i].name);
    if (!missing[0] && !process_ids_are_of_kernel(machine->proc)) {
        doctor_found(ret, "root in a PID namespace of its own");
        doctor_lacks(ret, "tasks of kernel events have no names, or names of other tasks",
                     "record in the PID namespace of the machine (containers: --pid=host)");
        return;
    }
    if (!missing[0]) {
        doctor_found(ret, "root%s", has >> SYS_ADMIN & 1 ? "" : ", without SYS_ADMIN");
        return;
    }
    doctor_found(ret, "root without %s", missing);
    snprintf(mend, sizeof(mend), "in the unit: CapabilityBoundingSet=%s (containers: --cap-add)",
             missing);
    costs_write(has, cost, sizeof(cost));
    doctor_lacks(ret, cost, mend);
}

// -- tracefs --

static bool has_line(struct span text, const char *word)
{
    struct span line, last;
    while (span_take_line(&text, &line))
        while (span_take_word(&line, &last))
            if (span_eq(last, word))
                return true;
    return false;
}

#define NO_EVENTS "no kernel events: reclaim, compaction, OOM kills, scheduling"

void doctor_tracefs(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char text[8192], path[256], mend[DOCTOR_TEXT_MAX];
    if (!machine->tracefs) {
        bool is_known =
            has_line(text_file_span(text, sizeof(text), machine->proc, "/filesystems"), "tracefs");
        doctor_found(ret, is_known ? "not mounted" : "the kernel has none");
        doctor_lacks(ret, NO_EVENTS,
                     is_known
                         ? "sudo mount -t tracefs tracefs /sys/kernel/tracing"
                         : "a kernel that is built with CONFIG_FTRACE and CONFIG_EVENT_TRACING");
        return;
    }
    snprintf(path, sizeof(path), "%s/instances", machine->tracefs);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
        int e = errno;
        doctor_found(ret, "%s: %s", machine->tracefs, strerror(e));
        snprintf(mend, sizeof(mend), "sudo mount -o remount,rw %s", machine->tracefs);
        doctor_lacks(ret, NO_EVENTS,
                     e == EROFS    ? mend
                     : e == ENOENT ? "a kernel that is built with CONFIG_EVENT_TRACING"
                                   : AS_ROOT);
        return;
    }
    snprintf(path, sizeof(path), "%s/events/vmscan", machine->tracefs);
    doctor_found(ret, "%s", machine->tracefs);
    if (access(path, F_OK) < 0)
        doctor_lacks(ret, NO_EVENTS, "a kernel that is built with CONFIG_EVENT_TRACING");
}

// -- pressure --

#define NO_PRESSURE "no pressure in traces, and no trigger when tasks stall for memory"

void doctor_pressure(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char text[512];
    ssize_t n = text_file_read_once(text, sizeof(text), machine->proc, "/pressure/memory");
    struct span all = span_over(text, n > 0 ? (size_t)n : 0), some, word;
    if (n <= 0) {
        doctor_found(ret, "%s/pressure/memory: %s", machine->proc, strerror(n < 0 ? (int)-n : EIO));
        doctor_lacks(ret, NO_PRESSURE,
                     n == -ENOENT       ? "a kernel that is built with CONFIG_PSI"
                     : n == -EOPNOTSUPP ? "psi=1 on the command line of the kernel"
                                        : "a /proc that is not masked");
        return;
    }
    bool is_there =
        span_take_line(&all, &some) && span_take_word(&some, &word) && span_take_word(&some, &word);
    char printable[64];
    doctor_found(ret, "%s/pressure/memory, some %s", machine->proc,
                 str_printable(printable, sizeof(printable), is_there ? word.pos : "",
                               is_there ? span_size(word) : 0));
}

// -- cachestat --

// Calls cachestat() with arguments that no kernel accepts. Returns the errno.
static int try_cachestat(void)
{
    return syscall(SYS_cachestat, -1, NULL, NULL, 0) < 0 ? errno : 0;
}

void doctor_cachestat(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    (void)machine;
    int e = try_cachestat();
    if (e == ENOSYS || e == EPERM) {
        doctor_found(ret, e == EPERM ? "a filter of system calls refuses cachestat"
                                     : "the kernel has no cachestat (" CACHESTAT_SINCE ")");
        doctor_lacks(ret,
                     "page residency by mincore: slower, without dirty and evicted pages, and "
                     "not of files that belong to others",
                     e == EPERM ? "allow cachestat in the filter of the unit or container"
                                : CACHESTAT_SINCE " or newer");
        return;
    }
    doctor_found(ret, "there");
}

// -- perf --

// Opens an event as linux.perf does, and closes it. Returns 0 or a negative errno.
static int try_perf(pid_t pid, int cpu, bool with_kernel)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .disabled = 1,
        .exclude_kernel = !with_kernel,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static bool read_setting(const char *proc, const char *name, long *ret)
{
    char text[64], *end;
    struct span span = text_file_span(text, sizeof(text), proc, "/sys/kernel/%s", name);
    if (!span_size(span))
        return false;
    *ret = strtol(text, &end, 10);
    return end != text;
}

#define LOWER_PARANOID "sudo sysctl kernel.perf_event_paranoid=-1"

void doctor_perf(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    long level = 0;
    char paranoid[64] = "no perf_event_paranoid";
    bool has_level = read_setting(machine->proc, "perf_event_paranoid", &level);
    if (has_level)
        snprintf(paranoid, sizeof(paranoid), "perf_event_paranoid is %ld", level);
    if (try_perf(-1, 0, true) == 0) {
        doctor_found(ret, "all processes and the kernel; %s", paranoid);
        return;
    }
    bool is_own = try_perf(0, -1, true) == 0;
    int r = is_own ? 0 : try_perf(0, -1, false);
    if (r == 0) {
        doctor_found(ret, "own processes%s; %s", is_own ? "" : " without the kernel's part",
                     paranoid);
        doctor_lacks(ret,
                     "mmtrace cpu and faults see no process of others, and the kernel's part "
                     "of stacks is missing",
                     LOWER_PARANOID);
        return;
    }
    doctor_found(ret, "perf_event_open: %s; %s", strerror(-r), paranoid);
    doctor_lacks(ret, "mmtrace cpu and faults record nothing",
                 r == -ENOSYS || !has_level ? "a kernel that is built with CONFIG_PERF_EVENTS"
                 : geteuid() != 0 && level > 2
                     ? LOWER_PARANOID
                     : "allow perf_event_open in the filter of the unit or container");
}

#define RATE_MIN 1000 // samples a second and processor

void doctor_perf_limits(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    long rate = 0, percent = 0, ring_kb = 0;
    if (!read_setting(machine->proc, "perf_event_max_sample_rate", &rate)) {
        doctor_found(ret, "unknown: %s/sys/kernel/perf_event_max_sample_rate cannot be read",
                     machine->proc);
        return;
    }
    read_setting(machine->proc, "perf_cpu_time_max_percent", &percent);
    read_setting(machine->proc, "perf_event_mlock_kb", &ring_kb);
    doctor_found(ret, "%ld samples a second, %ld %% of a processor, rings of %ld KB a user", rate,
                 percent, ring_kb);
    if (rate < RATE_MIN)
        doctor_lacks(ret, "the kernel throttles: samples of cpu and faults are missing",
                     "sudo sysctl kernel.perf_event_max_sample_rate=100000");
}

// -- names of kernel functions --

void doctor_symbols(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char text[16384];
    struct span rest = span_whole_lines(
                    text_file_span(text, sizeof(text), machine->proc, "/kallsyms")),
                line, word;
    bool is_seen = false;
    while (!is_seen && span_take_line(&rest, &line))
        is_seen = span_take_word(&line, &word) && span_size(word) > 1 &&
                  strspn(word.pos, "0") < span_size(word);
    if (is_seen) {
        doctor_found(ret, "%s/kallsyms shows addresses", machine->proc);
        return;
    }
    long level = 0;
    bool has_level = read_setting(machine->proc, "kptr_restrict", &level);
    doctor_found(ret, "%s/kallsyms hides addresses%s", machine->proc,
                 has_level && level == 2 ? "; kptr_restrict is 2" : "");
    doctor_lacks(ret, "kernel functions in stacks and events have no names",
                 has_level && level == 2 ? "sudo sysctl kernel.kptr_restrict=1" : AS_ROOT);
}

// -- filter of system calls --

static int try_perf_call(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0UL) < 0 ? errno : 0;
}

static int try_ptrace(void)
{
    return ptrace(PTRACE_CONT, -1, NULL, NULL) < 0 ? errno : 0;
}

static int try_other_memory(void)
{
    return process_vm_readv(-1, NULL, 0, NULL, 0, 0) < 0 ? errno : 0;
}

static int try_openat2(void)
{
    return syscall(SYS_openat2, -1, NULL, NULL, 0UL) < 0 ? errno : 0;
}

static const struct {
    const char *name;
    int (*try)(void);
} calls[] = {
    {"cachestat", try_cachestat}, {"perf_event_open", try_perf_call},
    {"ptrace", try_ptrace},       {"process_vm_readv", try_other_memory},
    {"openat2", try_openat2},
};

void doctor_seccomp(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char text[4096], refused[DOCTOR_TEXT_MAX - 64] = "";
    struct span status = text_file_span(text, sizeof(text), machine->proc, "/self/status");
    uint64_t mode = span_number_of(status, "Seccomp:");
    if (mode == SECCOMP_MODE_DISABLED) {
        doctor_found(ret, "no filter of system calls");
        return;
    }
    for (size_t i = 0; i < ELEMENTS(calls); i++)
        if (calls[i].try() == EPERM)
            word_add(refused, sizeof(refused), refused[0] ? ", " : "", calls[i].name);
    doctor_found(ret, refused[0] ? "a filter refuses %s" : "a filter permits what mmtrace needs%s",
                 refused);
    if (refused[0])
        doctor_lacks(ret, "heap profiles of running programs, CPU samples or page residency fail",
                     "allow the calls (docker run --security-opt seccomp=unconfined)");
}

// -- locked memory --

void doctor_memory_lock(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0) {
        doctor_found(ret, "unknown: %s", strerror(errno));
        return;
    }
    bool may_exceed =
        !is_in_user_namespace(machine->proc) && (capabilities(machine->proc) >> IPC_LOCK & 1);
    if (may_exceed || limit.rlim_cur == RLIM_INFINITY) {
        doctor_found(ret, "no limit");
        return;
    }
    doctor_found(ret, "%llu KB", (unsigned long long)limit.rlim_cur >> 10);
    doctor_lacks(ret,
                 "reclaim can take pages of the recorder, which then reads events late "
                 "when memory is short",
                 limit.rlim_max == RLIM_INFINITY
                     ? "ulimit -l unlimited"
                     : "LimitMEMLOCK=infinity in the unit, or as root: ulimit -l unlimited");
}
