// SPDX-License-Identifier: Apache-2.0
//
// The checks of `mmtrace doctor`: the features that this machine and this user have for recording.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DOCTOR_TEXT_MAX 384

// The result of a check. A lack has a cost and a remedy: a command if possible. The texts are fit
// for printing. Findings travel through a pipe, so they hold no pointers.
struct doctor_finding {
    bool is_lack;
    char found[DOCTOR_TEXT_MAX], cost[DOCTOR_TEXT_MAX], mend[DOCTOR_TEXT_MAX];
};

// All members are borrowed.
struct doctor_machine {
    const char *proc;          // "/proc"
    const char *tracefs;       // NULL: not mounted
    const char *armed_folder;  // of the daemon's configs
    const char *traces_folder; // of the daemon's traces
};

// Runs one check. *ret is all zero before. A check may block: the caller has a deadline.
typedef void (*doctor_look_fn)(const struct doctor_machine *machine, struct doctor_finding *ret);

struct doctor_check {
    const char *name;
    doctor_look_fn look;
};

// Ends with a row without name.
extern const struct doctor_check doctor_checks[];

__attribute__((format(printf, 2, 3))) void doctor_found(struct doctor_finding *ret,
                                                        const char *format, ...);
// Sets the cost and the remedy, which makes the finding a lack.
void doctor_lacks(struct doctor_finding *ret, const char *cost, const char *mend);

// doctor_kernel.c: the kernel, and the rights of this process.
void doctor_kernel(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_rights(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_tracefs(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_pressure(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_cachestat(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_perf(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_perf_limits(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_symbols(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_seccomp(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_memory_lock(const struct doctor_machine *machine, struct doctor_finding *ret);

// doctor_service.c: the daemon and its folders, and programs beside this one.
void doctor_daemon(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_armed(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_disk(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_heap(const struct doctor_machine *machine, struct doctor_finding *ret);
void doctor_verdict(const struct doctor_machine *machine, struct doctor_finding *ret);
