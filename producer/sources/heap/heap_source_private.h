// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the heap source, and included only there: heap_source.c (its life),
// heap_clients.c (the profiles and their shares), heap_dumps.c (reading rings, writing profiles),
// heap_arrivals.c (processes that ask for a profile), heap_running.c (processes that are looked
// for) and heap_vms.c (Java VMs).
#pragma once

#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/heap/heap_client.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/sources/heap/heap_names.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_shares.h"
#include "producer/sources/heap/heap_targets.h"
#include "producer/sources/heap/heap_vm.h"
#include "producer/sources/heap/heap_wake.h"
#include "producer/sources/heap/profile_writer.h"
#include "producer/sources/source.h"

#define HEAP_LOOK_FAST       (5 * NSEC_PER_MSEC)
#define HEAP_NAMES_WAIT_LAST NSEC_PER_SEC // maximum wait of the last dump for names

VEC_DEFINE(heap_attach_vec, struct heap_attach *);
VEC_DEFINE(heap_wake_vec, struct heap_wake *);
VEC_DEFINE(heap_vm_vec, struct heap_vm *);
VEC_DEFINE(pid_vec, int32_t);

// An examination, through the helper, whether a process is a VM.
struct vm_look {
    struct heap_source *heap; // borrowed
    int32_t pid;
    struct foreign_call *call; // NULL: no call is under way
    bool is_seen;              // found at the last look at all processes
    bool is_vm;                // the process was a VM when it was last examined
    bool is_held;              // files of its user did not answer in time at the last examination
    bool is_done;              // the process has its summons, or will not become a VM
};
VEC_DEFINE(vm_look_vec, struct vm_look *);

struct heap_vms {
    struct heap_targets targets;
    struct heap_vm_vec vms;   // owned; VMs that have not asked yet
    struct vm_look_vec looks; // owned
};

// The limits that a config sets for the recorder itself.
struct heap_guard {
    nsec_t cpu_start, due;
    bool hit;
};

struct heap_source {
    struct source_env env;
    struct heap_host *host; // borrowed
    struct heap_settings settings;
    struct heap_guard guard;
    struct profile_writer profile;
    struct heap_names names;
    struct heap_shares shares;
    struct heap_client_vec clients; // owned
    struct heap_targets targets;
    struct heap_vms vms;
    struct heap_attach_vec attaches; // owned; under way
    struct heap_wake_vec wakes;      // owned; of processes that have not asked yet
    struct pid_vec waiting;          // pids that wait for an attachment to end
    struct loop_timer *look_timer, *dump_timer, *target_timer;
    nsec_t look_period, ask_due, dump_due, started; // boot time; NSEC_MAX: no dump is due
    bool running, loss_logged;
    bool missing_told; // the first look has reported pids without a process
    char problem[256]; // why the first requested process is not profiled
    bool passing_over; // until the first look, if processes that ran before are not wanted
    uint64_t n_lost, n_refused, n_silent, n_left;
};

// heap_clients.c

// Takes a share in the recording for one more profile. Returns 0, or -EDQUOT with the limit in
// `err`.
int heap_clients_take_share(struct heap_source *heap, int32_t pid, struct err *err,
                            struct client_share *ret);
// Adds a profile of a native process. `ring_fd` (owned, also on failure) as for heap_client_new().
// The source owns *ret. Returns 0, -EDQUOT as heap_clients_take_share(), or another negative errno.
int heap_clients_add(struct heap_source *heap, int32_t pid, int ring_fd, struct heap_client **ret,
                     struct err *err);
void heap_clients_tell_refused(struct heap_source *heap, int32_t pid, const char *text);
// Returns whether the process is being profiled.
bool heap_clients_know(const struct heap_source *heap, int32_t pid, bool is_java);
// Returns whether the process has or had a native profile.
bool heap_clients_have_native(const struct heap_source *heap, int32_t pid);
// Notes that another recorder profiles the process. Returns false if this needs no report, because
// it was noted before.
bool heap_clients_note_rejected(struct heap_source *heap, int32_t pid, bool is_java);
void heap_clients_forget_rejected(struct heap_source *heap, int32_t pid, bool is_java);
// Reads the client's ring, in the time that its user has left.
void heap_clients_look_at(struct heap_source *heap, struct heap_client *client);
void heap_clients_end(struct heap_source *heap, struct heap_client *client, bool disconnected);
void heap_clients_start_guard(struct heap_source *heap);
// Ends all profiles if the recorder needs more than its settings allow.
void heap_clients_check_guard(struct heap_source *heap, nsec_t now);
// heap_clients_log_loss() logs the first loss of a recording, and heap_clients_log_jail() the end
// of a client in a jail. heap_clients_tell_silence() reports the first silent client.
void heap_clients_log_loss(struct heap_source *heap, const struct heap_client *client);
void heap_clients_log_jail(const struct heap_source *heap, const struct heap_client *client);
// Logs how many children after fork have no profile, and why.
void heap_clients_log_children(const struct heap_source *heap);
void heap_clients_tell_silence(struct heap_source *heap, struct heap_client *client, bool is_last);

// heap_dumps.c

// Timers of the source.
void heap_dumps_look(void *userdata);
void heap_dumps_due(void *userdata);
// Gets the state of the allocators for the next dump, if the recorder may wait.
void heap_dumps_hear_answers(struct heap_source *heap);
// Writes all profiles as they are now.
void heap_dumps_write(struct heap_source *heap, bool is_last);
void heap_dumps_write_copy(struct heap_source *heap); // dump_copy() of struct source_class
// Returns the name of a frame, for the profile writer.
const char *heap_dumps_name(void *userdata, const struct book_frame *frame);

// heap_arrivals.c

// Callbacks of the host: a process asks for its ring over `fd` (borrowed).
bool heap_arrivals_program(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken);
bool heap_arrivals_vm(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken);
// Returns whether a found VM must be left alone.
bool heap_arrivals_vm_is_left(const struct heap_source *heap, int32_t pid);
// Sends a ring to the process that asks over `fd`. Returns 0 or a negative errno, which is logged.
int heap_arrivals_welcome(struct heap_source *heap, int32_t pid, int fd, bool from_startup);
// Reports a profiled process to the other sources of the session.
void heap_arrivals_publish(struct heap_source *heap, int32_t pid);
// Returns whether the user of the recording may trace the process. Logs a refusal.
bool heap_arrivals_may_profile(struct heap_source *heap, int32_t pid);
// Returns whether the process is older than the recording, by a tick of the kernel at least.
bool heap_arrivals_ran_before(const struct heap_source *heap, int32_t pid);
// Returns whether the settings choose the process, and the user who asked may trace it.
bool heap_arrivals_wants(struct heap_source *heap, int32_t pid);
// Logs a process that cannot be profiled, and why. The first text becomes the source's problem
// (source.h), unless a process is profiled.
__attribute__((format(printf, 2, 3))) void heap_arrivals_tell(struct heap_source *heap,
                                                              const char *format, ...);
// Log why a process, or its Java heap, is not profiled, as heap_arrivals_tell() does.
void heap_arrivals_tell_problem(struct heap_source *heap, int32_t pid, const char *why);
void heap_arrivals_tell_no_java(struct heap_source *heap, int32_t pid, const char *why);
// Reports a process without a profile at the end of the recording, unless another such process was
// reported before.
void heap_arrivals_tell_left(struct heap_source *heap, int32_t pid, bool is_java);

// heap_running.c

// A timer of the source: looks for processes that run already, and for VMs.
void heap_running_look(void *userdata);
// Ends the search. Work under way is finished, given up, or left to the host. Reports the first
// process that is not profiled for this reason, and counts all.
void heap_running_end(struct heap_source *heap);

// heap_vms.c: the Java VMs among the processes that a config selects, running or later. Each VM is
// told to ask for a ring.

// Returns false if some processes may become VMs soon.
bool heap_vms_look(struct heap_source *heap);
// Forgets a process that has got its ring in another way.
void heap_vms_forget(struct heap_source *heap, int32_t pid);
// Ends the search for VMs. VMs that have not asked go on without a profile. A second call is
// permitted.
void heap_vms_done(struct heap_source *heap);
