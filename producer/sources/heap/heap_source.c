// SPDX-License-Identifier: Apache-2.0
//
// The loop looks at the rings: ten times a second while little happens, more often the fuller they
// are found, so a client never has to make a system call to be heard.
//
// Nothing that a client does can end the recording; a program that calls again (it has executed
// another one) has a new profile. Nothing here waits for another process, unless this recording is
// all that its recorder does (heap_host_is_alone()).
#include "producer/sources/heap/heap_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/heap/heap_client.h"
#include "producer/sources/heap/heap_guard.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/sources/heap/heap_names.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_smaps.h"
#include "producer/sources/heap/heap_targets.h"
#include "producer/sources/heap/heap_vms.h"
#include "producer/sources/heap/heap_wake.h"
#include "producer/sources/heap/profile_writer.h"
#include "producer/sources/requester.h"

#define LOOK_SLOW        (100 * NSEC_PER_MSEC)
#define LOOK_FAST        (5 * NSEC_PER_MSEC)
#define CMDLINE_MAX      4096
#define TARGETS_EVERY    (500 * NSEC_PER_MSEC)
#define ATTACHES_MAX     4 // at a time
#define WAKES_MAX        64
#define ASK_EVERY        NSEC_PER_SEC
#define ASK_AHEAD        (10 * NSEC_PER_MSEC)  // of a dump that cannot wait for answers
#define ANSWER_TIME      (50 * NSEC_PER_MSEC)  // that a dump waits for answers where it can
#define NAMES_WAIT       (300 * NSEC_PER_MSEC) // of a dump, for names
#define NAMES_WAIT_LAST  NSEC_PER_SEC
#define NAMES_WAIT_ALONE (30 * NSEC_PER_SEC)
#define SMAPS_REST       20 // times what a look takes, between two looks

VEC_DEFINE(heap_attach_vec, struct heap_attach *);
VEC_DEFINE(heap_wake_vec, struct heap_wake *);
VEC_DEFINE(pid_vec, int32_t);
VEC_DEFINE(profile_process_vec, struct profile_process);

struct heap_source {
    struct source source;
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
    struct heap_attach_vec attaches; // owned; those that are under way
    struct heap_wake_vec wakes;      // owned; of processes that have not come yet
    struct pid_vec waiting;          // for an attach to end
    struct loop_timer *look_timer, *dump_timer, *target_timer;
    nsec_t look_period, ask_due, dump_due, started; // boot time; NSEC_MAX: no dump is due
    bool running, loss_logged;
    char problem[256]; // why the first process that was asked for is not profiled
    bool passing_over; // what runs already is not wanted
    uint64_t n_lost, n_refused, n_silent;
};

static struct heap_source *of_source(struct source *source)
{
    return (struct heap_source *)source;
}

// A share in the recording for one profile more.
static int take_share(struct heap_source *heap, int32_t pid, struct err *err,
                      struct client_share *ret)
{
    uint64_t payer =
        heap_shares_payer(heap->env.roots->proc, pid, geteuid(), heap_host_is_private(heap->host));
    vec_foreach(&heap->clients, client)
        if ((*client)->ended)
            heap_shares_ended(&heap->shares, &(*client)->share);
    return heap_shares_take(&heap->shares, payer, err, ret);
}

// `ring_fd` as for heap_client_new().
static int add_client(struct heap_source *heap, int32_t pid, int ring_fd, struct heap_client **ret,
                      struct err *err)
{
    struct client_share share = {0};
    int r = take_share(heap, pid, err, &share);
    if (r < 0) {
        if (ring_fd >= 0)
            ring_fd_stop(ring_fd); // nobody will read it
        close_fd(ring_fd);
        return r;
    }
    r = heap_client_new(&heap->settings.ring, pid, ring_fd, ret, err);
    if (r == 0 && (r = heap_client_vec_push(&heap->clients, *ret)) < 0)
        heap_client_free(*ret);
    if (r < 0) {
        heap_shares_gone(&heap->shares, &share);
        return r;
    }
    (*ret)->share = share;
    heap_names_begin(&heap->names, *ret);
    return 0;
}

// A process that was refused a profile: once by its name, and later by their number.
static void tell_refused(struct heap_source *heap, int32_t pid, const char *text)
{
    if (heap->n_refused++ == 0)
        log_warning(heap->env.log, "linux.heap: process %d is not profiled: %s", pid, text);
}

static bool is_known(const struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && (*client)->is_java == is_java && !(*client)->ended)
            return true;
    return false;
}

static bool has_native(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && !(*client)->is_java && !(*client)->rejected)
            return true;
    return false;
}

static void note_rejected(struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, known)
        if ((*known)->rejected && (*known)->pid == pid && (*known)->is_java == is_java)
            return;
    struct client_share share = {0};
    if (take_share(heap, pid, NULL, &share) < 0)
        return;
    struct heap_client *client = heap_client_new_rejected(pid, is_java);
    if (client && heap_client_vec_push(&heap->clients, client) == 0) {
        client->share = share;
        return;
    }
    heap_client_free(client);
    heap_shares_gone(&heap->shares, &share);
}

// There is a profile now after all.
static void forget_rejected(struct heap_source *heap, int32_t pid, bool is_java)
{
    for (size_t i = 0; i < heap->clients.n; i++) {
        struct heap_client *known = heap->clients.items[i];
        if (!known->rejected || known->pid != pid || known->is_java != is_java)
            continue;
        heap_shares_gone(&heap->shares, &known->share);
        heap_client_free(known);
        heap->clients.items[i--] = heap->clients.items[--heap->clients.n];
    }
}

static void log_loss(struct heap_source *heap, const struct heap_client *client)
{
    uint64_t lost = heap_client_lost(client);
    if (heap->loss_logged || lost == 0)
        return;
    log_warning(heap->env.log,
                "linux.heap: process %d: its buffer was full: %llu samples are lost (enlarge "
                "shmem_size_bytes, or set block_client)",
                client->pid, (unsigned long long)lost);
    heap->loss_logged = true;
}

static void log_jail(const struct heap_source *heap, const struct heap_client *client)
{
    if (client->ended && atomic_load(&client->ring.header->gone) == HEAP_GONE_JAIL)
        log_info(heap->env.log,
                 "linux.heap: process %d: its profile ends: it puts itself into a seccomp jail, "
                 "which might end it for what a profile takes",
                 client->pid);
}

static void log_silence(struct heap_source *heap, struct heap_client *client, bool is_last)
{
    if (heap_client_stays_silent(client, is_last) && heap->n_silent++ == 0)
        log_warning(heap->env.log,
                    "linux.heap: process %d is not profiled: it has asked for a profile and does "
                    "not begin: perhaps it has another version of %s, until it is started anew",
                    client->pid, HEAP_LIBRARY_FILE);
}

static void end_client(struct heap_source *heap, struct heap_client *client, bool disconnected);

static void check_guard(struct heap_source *heap, nsec_t now)
{
    if (!heap_guard_check(&heap->guard, now))
        return;
    log_warning(heap->env.log, "linux.heap: the recorder needs more than max_heapprofd_memory_kb "
                               "or max_heapprofd_cpu_secs allow: the profile ends");
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            end_client(heap, *client, false);
}

// Looks and dumps.

// As long as its user has time left.
static void look_at(struct heap_source *heap, struct heap_client *client)
{
    nsec_t max = heap_shares_time(&heap->shares, &client->share, heap_host_is_alone(heap->host));
    nsec_t before = nsec_now(CLOCK_THREAD_CPUTIME_ID); // others may have the processor meanwhile
    if (max > 0)
        heap_client_look(client, max);
    heap_shares_spend(&heap->shares, &client->share, nsec_now(CLOCK_THREAD_CPUTIME_ID) - before);
}

static void end_client(struct heap_source *heap, struct heap_client *client, bool disconnected)
{
    nsec_t max = heap_shares_time(&heap->shares, &client->share, heap_host_is_alone(heap->host));
    nsec_t before = nsec_now(CLOCK_THREAD_CPUTIME_ID);
    heap_client_end(client, disconnected, max);
    heap_shares_spend(&heap->shares, &client->share, nsec_now(CLOCK_THREAD_CPUTIME_ID) - before);
}

static nsec_t period_for(const struct heap_source *heap)
{
    uint64_t fullest = 0;
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended && ring_reader_used(&(*client)->ring) > fullest)
            fullest = ring_reader_used(&(*client)->ring);
    if (fullest >= heap->settings.ring.bytes / 16)
        return LOOK_FAST;
    nsec_t slower = heap->look_period * 2;
    return slower < LOOK_SLOW ? slower : LOOK_SLOW;
}

// A dump has the answer that came last.
static void ask_all(struct heap_source *heap)
{
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended && !(*client)->is_java)
            ring_reader_ask(&(*client)->ring);
}

static bool all_answered(const struct heap_source *heap)
{
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended && !(*client)->is_java && !heap_client_has_exited(*client) &&
            !ring_reader_is_answered(&(*client)->ring))
            return false;
    return true;
}

static void wait_for_answers(const struct heap_source *heap)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + ANSWER_TIME;
    while (!all_answered(heap) && nsec_now(CLOCK_MONOTONIC) < deadline)
        nanosleep(&(struct timespec){.tv_nsec = NSEC_PER_MSEC}, NULL);
}

// What the allocators hold is to be of the moment of the dump.
static void hear_answers(struct heap_source *heap)
{
    if (!heap_host_is_alone(heap->host))
        return;
    ask_all(heap);
    wait_for_answers(heap);
}

static void write_malloc_infos(struct heap_source *heap)
{
    vec_foreach(&heap->clients, client)
        malloc_info_write(&(*client)->malloc_info, heap->env.writer, (*client)->pid);
}

// Before each dump, so that its answer is of the same moment; in between for dumps that are asked
// for.
static nsec_t next_question(const struct heap_source *heap, nsec_t now)
{
    nsec_t before_dump = heap->dump_due == NSEC_MAX ? NSEC_MAX : heap->dump_due - ASK_AHEAD;
    return before_dump > now && before_dump < now + ASK_EVERY ? before_dump : now + ASK_EVERY;
}

static void look(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_source *heap = userdata;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    (void)due;
    (void)n_due;
    heap->look_period = period_for(heap); // before the rings are emptied
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended) {
            look_at(heap, *client);
            log_loss(heap, *client);
            log_jail(heap, *client);
            log_silence(heap, *client, false);
        }
        heap_names_ask(&heap->names, *client);
    }
    check_guard(heap, now);
    if (now >= heap->ask_due) {
        ask_all(heap);
        heap->ask_due = next_question(heap, now);
    }
    nsec_t next = now + heap->look_period;
    loop_set_timer(heap->look_timer, next < heap->ask_due ? next : heap->ask_due, 0);
}

static const char *name_of(void *userdata, const struct book_frame *frame)
{
    struct heap_source *heap = userdata;
    return heap_names_text(&heap->names, frame);
}

// A bounded wait for names that have not come yet. A recorder with other things to do does not wait
// for long; most have come while samples did.
static void hear_names(struct heap_source *heap, bool is_last)
{
    nsec_t wait = heap_host_is_alone(heap->host) ? NAMES_WAIT_ALONE
                  : is_last                      ? NAMES_WAIT_LAST
                                                 : NAMES_WAIT;
    vec_foreach(&heap->clients, client)
        heap_names_ask(&heap->names, *client);
    foreign_helper_settle(heap->env.helper, nsec_now(CLOCK_MONOTONIC) + wait);
}

// Beside what the profile says, what the process has. The kernel walks all of a process's memory
// for that, while the process waits for it in mmap(): so it is at most a twentieth of the time.
static void write_smaps(struct heap_source *heap, bool is_last)
{
    vec_foreach(&heap->clients, item) {
        struct heap_client *client = *item;
        nsec_t before = nsec_now(CLOCK_BOOTTIME);
        if (client->rejected || client->disconnected || (before < client->smaps_due && !is_last) ||
            (client->is_java && has_native(heap, client->pid)))
            continue;
        int r = smaps_write(heap->env.writer, heap->env.roots->proc, client->pid);
        nsec_t after = nsec_now(CLOCK_BOOTTIME);
        client->smaps_due = after + SMAPS_REST * (after - before);
        if (r < 0 && r != -ESRCH && r != -ENOENT)
            log_debug(heap->env.log, "linux.heap: smaps of process %d: %s", client->pid,
                      strerror(-r));
    }
}

static void dump_all(struct heap_source *heap, bool is_last)
{
    struct profile_process heaps[HEAP_HEAPS_MAX];
    struct profile_process_vec processes CLEANUP(profile_process_vec_done) = {0};
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended)
            look_at(heap, *client);
        size_t n = heap_client_describe(*client, &heap->settings, heap->guard.hit, heaps);
        for (size_t i = 0; i < n; i++)
            heap->n_lost += profile_process_vec_push(&processes, heaps[i]) < 0;
    }
    profile_take(&heap->profile);
    hear_names(heap, is_last);
    if (processes.n > 0 && !profile_write(&heap->profile, processes.items, processes.n))
        heap->n_lost++;
    write_malloc_infos(heap);
    write_smaps(heap, is_last);
}

static void dump_due(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_source *heap = userdata;
    (void)due;
    (void)n_due;
    hear_answers(heap);
    dump_all(heap, false);
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    while (heap->dump_due <= now)
        heap->dump_due += heap->settings.dump_interval;
    heap->ask_due = next_question(heap, now);
}

static void heap_dump(struct source *source)
{
    struct heap_source *heap = of_source(source);
    if (heap->settings.dump_at_max)
        log_warning(heap->env.log, "linux.heap: dump_at_max is one dump, at the end: none now");
    else {
        hear_answers(heap);
        dump_all(heap, false);
    }
}

// Programs that come.

static void tell_problem(struct heap_source *heap, int32_t pid, const char *why)
{
    char text[sizeof(heap->problem)];
    snprintf(text, sizeof(text), "linux.heap: process %d is not profiled: %s", pid, why);
    log_warning(heap->env.log, "%s", text);
    if (!heap->problem[0])
        memcpy(heap->problem, text, sizeof(text));
}

static bool may_profile(struct heap_source *heap, int32_t pid)
{
    char why[64];
    if (requester_may_trace(heap->env.requester, heap->env.roots->proc, pid))
        return true;
    snprintf(why, sizeof(why), "user %u, who records, may not trace it",
             (unsigned)heap->env.requester->uid);
    tell_problem(heap, pid, why);
    return false;
}

static bool is_wanted(struct heap_source *heap, int32_t pid)
{
    char text[CMDLINE_MAX];
    ssize_t n =
        text_file_read_once(text, sizeof(text) - 1, heap->env.roots->proc, "/%d/cmdline", pid);
    text[n > 0 ? n : 0] = 0;
    return !heap->guard.hit && heap_settings_match(&heap->settings, pid, text) &&
           may_profile(heap, pid);
}

// The same process with another program: what was before has ended.
static void end_former(struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && (*client)->is_java == is_java && !(*client)->ended)
            end_client(heap, *client, true);
}

static void publish(struct heap_source *heap, int32_t pid)
{
    if (!heap->env.pids)
        return;
    pid_feed_publish(heap->env.pids, pid);
    pid_feed_profiled(heap->env.pids, pid);
}

// Sends the process that asks over `fd` its ring.
static int welcome(struct heap_source *heap, int32_t pid, int fd, bool from_startup)
{
    struct heap_client *client = NULL;
    struct err err = {0};
    int r = add_client(heap, pid, -1, &client, &err);
    if (r == 0) {
        client->from_startup = from_startup;
        client->is_awaited = true;
        r = unix_socket_send(fd, "", 1, client->ring.fd, MSG_DONTWAIT);
    }
    if (r == -EDQUOT)
        tell_refused(heap, pid, err.text);
    else if (r < 0)
        log_warning(heap->env.log, "linux.heap: process %d: %s", pid,
                    err.text[0] ? err.text : strerror(-r));
    else
        publish(heap, pid);
    return r;
}

static bool program_asks(void *userdata, int32_t pid, uid_t uid, int fd, bool taken)
{
    struct heap_source *heap = userdata;
    (void)uid;
    end_former(heap, pid, false);
    if (!is_wanted(heap, pid))
        return false;
    if (taken) {
        note_rejected(heap, pid, false);
        return false;
    }
    return welcome(heap, pid, fd, true) == 0;
}

// A process that ran before, or one that began later, where they are not wanted. Those that come to
// a recording's own socket are what it was made for.
static bool is_of_another_time(const struct heap_source *heap, int32_t pid)
{
    const struct heap_settings *settings = &heap->settings;
    if ((settings->running && settings->startup) || heap_host_is_private(heap->host))
        return false;
    bool ran = heap_targets_began(heap->env.roots->proc, pid) < heap->started;
    return ran ? !settings->running : !settings->startup;
}

// A VM has asked, at its start or later.
static bool vm_asks(void *userdata, int32_t pid, uid_t uid, int fd, bool taken)
{
    struct heap_source *heap = userdata;
    struct heap_client *client = NULL;
    struct client_share share = {0};
    struct err err = {0};
    (void)uid;
    end_former(heap, pid, true);
    if (!is_wanted(heap, pid) || is_of_another_time(heap, pid))
        return false;
    if (taken) {
        note_rejected(heap, pid, true);
        return false;
    }
    int r = take_share(heap, pid, &err, &share);
    if (r == -EDQUOT) {
        tell_refused(heap, pid, err.text);
        return false;
    }
    r = heap_client_new_java(&heap->settings, pid, fd, &client, &err);
    if (r == 0 && (r = heap_client_vec_push(&heap->clients, client)) < 0)
        heap_client_free(client);
    if (r < 0) {
        heap_shares_gone(&heap->shares, &share);
        log_warning(heap->env.log, "linux.heap: Java heap of process %d: %s", pid,
                    err.text[0] ? err.text : strerror(-r));
        return false;
    }
    client->share = share;
    forget_rejected(heap, pid, true);
    heap_vms_forget(&heap->vms, pid);
    publish(heap, pid);
    return true;
}

// VMs that are looked for.

static bool vm_is_left(void *userdata, int32_t pid)
{
    const struct heap_source *heap = userdata;
    return heap->passing_over || is_known(heap, pid, true) || is_of_another_time(heap, pid) ||
           !requester_may_trace(heap->env.requester, heap->env.roots->proc, pid);
}

static void vm_comes(void *userdata, int32_t pid, int fd)
{
    vm_asks(userdata, pid, 0, fd, false);
}

static void vm_is_busy(void *userdata, int32_t pid)
{
    note_rejected(userdata, pid, true);
}

// Processes that run already.

static void forget_wake(struct heap_source *heap, int32_t pid)
{
    for (size_t i = 0; i < heap->wakes.n; i++)
        if (heap_wake_pid(heap->wakes.items[i]) == pid) {
            heap_wake_free(heap->wakes.items[i]);
            heap->wakes.items[i--] = heap->wakes.items[--heap->wakes.n];
        }
}

static bool is_woken(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->wakes, wake)
        if (heap_wake_pid(*wake) == pid)
            return true;
    return false;
}

static void attach_next(struct heap_source *heap);

static void attach_failed(struct heap_source *heap, int32_t pid, int result, const char *text)
{
    if (!text[0])
        text = strerror(-result);
    if (result == -EBUSY)
        note_rejected(heap, pid, false);
    bool may_come = result != -ESRCH && result != -EBUSY && result != -EPROTO && result != -EAGAIN;
    if (may_come && is_woken(heap, pid)) {
        log_info(heap->env.log,
                 "linux.heap: process %d is profiled from its next allocation on (not at once: %s)",
                 pid, text);
        return;
    }
    forget_wake(heap, pid);
    if (result == -EDQUOT)
        tell_refused(heap, pid, text);
    else
        tell_problem(heap, pid, text);
}

static void attach_done(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                        int ring_fd, const char *text)
{
    struct heap_source *heap = userdata;
    struct heap_client *client = NULL;
    struct err err = {0};
    for (size_t i = 0; i < heap->attaches.n; i++)
        if (heap->attaches.items[i] == attach)
            heap->attaches.items[i--] = heap->attaches.items[--heap->attaches.n];
    nsec_t stopped = heap_attach_stopped(attach);
    heap_attach_free(attach);
    attach_next(heap);
    if (result == -EBUSY && is_known(heap, pid, false))
        return;                                   // it came by itself meanwhile
    if (result == 0 && !may_profile(heap, pid)) { // it has executed another program meanwhile
        ring_fd_stop(ring_fd);
        close_fd(ring_fd);
        return;
    }
    if (result == 0) {
        result = add_client(heap, pid, ring_fd, &client, &err);
        text = err.text;
    }
    if (result < 0) {
        attach_failed(heap, pid, result, text);
        return;
    }
    forget_wake(heap, pid);
    log_info(heap->env.log, "linux.heap: process %d: attached, one thread stood still for %lld us",
             pid, (long long)(stopped / NSEC_PER_USEC));
    publish(heap, pid);
}

static bool is_being_attached(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->attaches, attach)
        if (heap_attach_pid(*attach) == pid)
            return true;
    return false;
}

static void attach_begin(struct heap_source *heap, int32_t pid)
{
    const struct heap_attach_env env = {heap->env.loop, heap->env.roots->foreign};
    struct heap_attach *attach;
    struct err err = {0};
    int r = heap_attach_vec_reserve(&heap->attaches, heap->attaches.n + 1);
    if (r == 0)
        r = heap_attach_begin(&env, &heap->settings.ring, pid, attach_done, heap, &attach, &err);
    if (r == 0)
        heap_attach_vec_push(&heap->attaches, attach);
    else
        attach_failed(heap, pid, r, err.text);
}

static void attach_or_wait(struct heap_source *heap, int32_t pid)
{
    if (heap->attaches.n < ATTACHES_MAX || pid_vec_push(&heap->waiting, pid) < 0)
        attach_begin(heap, pid);
}

// One has ended.
static void attach_next(struct heap_source *heap)
{
    if (heap->waiting.n == 0 || heap->attaches.n >= ATTACHES_MAX)
        return;
    int32_t pid = heap->waiting.items[0];
    memmove(heap->waiting.items, heap->waiting.items + 1,
            --heap->waiting.n * sizeof(heap->waiting.items[0]));
    attach_begin(heap, pid);
}

// A process that waits for an allocation can be attached to meanwhile, if that is allowed. One that
// does not wait for a signal has to be.
static void wake_done(void *userdata, struct heap_wake *wake, int32_t pid, int result, int fd)
{
    struct heap_source *heap = userdata;
    (void)wake;
    if (result == -ETIMEDOUT) {
        attach_or_wait(heap, pid);
        return;
    }
    bool is_known_now = is_known(heap, pid, false);
    if (result == 0 && !is_known_now && welcome(heap, pid, fd, false) == 0)
        log_info(heap->env.log, "linux.heap: process %d: woken", pid);
    else if (result == -EBUSY && !is_known_now)
        attach_failed(heap, pid, result, "it is being profiled already");
    else if (result == -ESRCH && !is_being_attached(heap, pid)) // which says so, too
        attach_failed(heap, pid, result, "it has ended");
    else if (result == -EPROTO)
        attach_failed(heap, pid, result,
                      "it has another version of " HEAP_LIBRARY_FILE ", until it is started anew");
    else if (result == -EAGAIN)
        attach_failed(heap, pid, result, "its files do not answer in time");
    forget_wake(heap, pid);
    if (result == -ENOENT)
        attach_or_wait(heap, pid);
}

static int wake_begin(struct heap_source *heap, int32_t pid)
{
    const struct heap_wake_env env = {heap->env.loop, heap->env.helper, heap->env.roots->proc};
    struct heap_wake *wake;
    struct err err = {0};
    int r = heap_wake_vec_reserve(&heap->wakes, heap->wakes.n + 1);
    if (r == 0)
        r = heap_wake_begin(&env, pid, wake_done, heap, &wake, &err);
    if (r == 0)
        heap_wake_vec_push(&heap->wakes, wake);
    else
        attach_failed(heap, pid, r, err.text);
    return r;
}

static enum heap_target_answer target_found(void *userdata, int32_t pid)
{
    struct heap_source *heap = userdata;
    if (heap->passing_over || !heap->settings.native || is_known(heap, pid, false))
        return HEAP_TARGET_DONE;
    if (!may_profile(heap, pid))
        return HEAP_TARGET_DONE;
    if (heap->wakes.n >= WAKES_MAX || heap_host_is_detaching(heap->host, pid))
        return HEAP_TARGET_LATER;
    wake_begin(heap, pid);
    return HEAP_TARGET_DONE;
}

static void look_for_targets(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_source *heap = userdata;
    bool all_done = true;
    (void)due;
    (void)n_due;
    if (!heap->guard.hit)
        all_done = heap_targets_look(&heap->targets, &heap->settings, heap->env.roots->proc,
                                     target_found, heap);
    if (!heap->guard.hit && heap->settings.java_named)
        all_done &= heap_vms_look(&heap->vms);
    heap->passing_over = false;
    // Those that start later are found a little later. Where they are not wanted one look is all.
    if (!heap->settings.startup && all_done)
        loop_set_timer(heap->target_timer, NSEC_MAX, 0);
}

// What an attach that is not done would have to tell comes too late for the dump.
static void end_attaches(struct heap_source *heap)
{
    // Those that are looked at are attached to, if they have to be.
    if (heap_host_is_alone(heap->host))
        foreign_helper_settle(heap->env.helper, nsec_now(CLOCK_MONOTONIC) + NAMES_WAIT_LAST);
    pid_vec_clear(&heap->waiting);
    vec_foreach(&heap->wakes, wake)
        heap_wake_free(*wake);
    heap_wake_vec_clear(&heap->wakes);
    heap_vms_done(&heap->vms);
    while (heap->attaches.n > 0 && heap_host_is_alone(heap->host))
        heap_attach_finish(heap->attaches.items[0]);
    vec_foreach(&heap->attaches, attach)
        heap_host_adopt(heap->host, *attach);
    if (heap->attaches.n > 0)
        log_info(heap->env.log, "linux.heap: the recording ended while processes were attached to");
    heap_attach_vec_clear(&heap->attaches);
}

// The source.

static void stop_looking(struct heap_source *heap)
{
    if (heap->running)
        heap_host_leave(heap->host, heap);
    heap->running = false;
    heap->look_timer = loop_remove_timer(heap->look_timer);
    heap->dump_timer = loop_remove_timer(heap->dump_timer);
    heap->target_timer = loop_remove_timer(heap->target_timer);
    end_attaches(heap);
}

static struct source *heap_close(struct source *source)
{
    struct heap_source *heap = of_source(source);
    if (!heap)
        return NULL;
    stop_looking(heap);
    heap_attach_vec_done(&heap->attaches);
    heap_wake_vec_done(&heap->wakes);
    pid_vec_done(&heap->waiting);
    heap_targets_done(&heap->targets);
    vec_foreach(&heap->clients, client)
        heap_client_free(*client);
    heap_client_vec_done(&heap->clients);
    heap_names_done(&heap->names);
    heap_shares_done(&heap->shares);
    profile_writer_done(&heap->profile);
    free(heap);
    return NULL;
}

static int heap_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    struct heap_settings settings;
    int r = heap_settings_read(config, &settings, err);
    if (r < 0)
        return r;
    if (!env->roots->heap_host || !env->helper)
        return err_set(err, -EOPNOTSUPP, "this recorder has no part for heap profiles");
    struct heap_source *heap = calloc(1, sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    heap->source.class = &heap_source_class;
    heap->env = *env;
    heap->host = env->roots->heap_host;
    heap->settings = settings;
    heap->profile = (struct profile_writer){
        .writer = env->writer,
        .dump_at_max = settings.dump_at_max,
        .name = name_of,
        .userdata = heap,
    };
    heap_shares_init(&heap->shares);
    heap_names_init(&heap->names, env->helper, env->log, env->roots->proc, &heap->settings);
    heap->vms.env = (struct heap_vms_env){
        .loop = env->loop,
        .host = heap->host,
        .foreign = env->roots->foreign,
        .helper = env->helper,
        .log = env->log,
        .proc = env->roots->proc,
        .settings = &heap->settings,
        .is_left = vm_is_left,
        .comes = vm_comes,
        .is_busy = vm_is_busy,
        .userdata = heap,
    };
    *ret = &heap->source;
    return 0;
}

static int start_timers(struct heap_source *heap, nsec_t now)
{
    const struct heap_settings *settings = &heap->settings;
    int r = loop_add_timer(heap->env.loop, now + LOOK_FAST, 0, look, heap, &heap->look_timer);
    heap->dump_due = NSEC_MAX;
    if (r == 0 && settings->dump_interval) {
        heap->dump_due =
            now + (settings->dump_phase ? settings->dump_phase : settings->dump_interval);
        r = loop_add_timer(heap->env.loop, heap->dump_due, settings->dump_interval, dump_due, heap,
                           &heap->dump_timer);
    }
    // A program that is started for the profile comes by itself.
    heap->passing_over = !settings->running;
    if (r == 0 && (settings->running || !heap_host_is_private(heap->host)))
        r = loop_add_timer(heap->env.loop, now, TARGETS_EVERY, look_for_targets, heap,
                           &heap->target_timer);
    return r;
}

static int heap_start(struct source *source, struct err *err)
{
    struct heap_source *heap = of_source(source);
    heap_guard_start(&heap->guard, heap->settings.max_memory_kb, heap->settings.max_cpu_secs);
    heap->look_period = LOOK_FAST;
    heap->running = true;
    heap->started = nsec_now(CLOCK_BOOTTIME);
    int r = 0;
    if (heap->settings.startup && heap->settings.native)
        r = heap_host_join(heap->host, program_asks, heap, err);
    if (r == 0 && heap->settings.java_interval_bytes)
        r = heap_host_join_java(heap->host, vm_asks, heap, err);
    if (r < 0)
        return r;
    r = start_timers(heap, nsec_now(CLOCK_BOOTTIME));
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static void heap_flush(struct source *source)
{
    struct heap_source *heap = of_source(source);
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            look_at(heap, *client);
}

static void heap_stop(struct source *source)
{
    struct heap_source *heap = of_source(source);
    stop_looking(heap);
    hear_answers(heap);
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended)
            end_client(heap, *client, heap_client_has_exited(*client));
        log_loss(heap, *client);
        log_silence(heap, *client, true);
    }
    if (heap->n_silent > 1)
        log_warning(heap->env.log,
                    "linux.heap: %llu processes have asked for a profile and did not "
                    "begin",
                    (unsigned long long)heap->n_silent);
    if (heap->n_refused > 1)
        log_warning(heap->env.log, "linux.heap: %llu processes are not profiled because of limits",
                    (unsigned long long)heap->n_refused);
    dump_all(heap, true);
    vec_foreach(&heap->clients, client)
        if (!heap_client_has_left(*client))
            heap_host_detach(heap->host, (*client)->pid, (*client)->ring.fd);
}

static void heap_counts(const struct source *source, struct source_counts *ret)
{
    const struct heap_source *heap = (const struct heap_source *)source;
    size_t n_profiled = 0;
    ret->events = 0;
    ret->events_lost = heap->n_lost;
    vec_foreach(&heap->clients, client) {
        ret->events += (*client)->n_samples;
        ret->events_lost += (*client)->n_failed + heap_client_lost(*client);
        n_profiled += !(*client)->rejected;
    }
    ret->problem = heap->problem[0] && n_profiled == 0 ? heap->problem : NULL;
}

const struct source_class heap_source_class = {
    .name = "android.heapprofd",
    .aliases = (const char *const[]){"linux.heap", NULL},
    .summary = "sampled call stacks of what native programs allocate",
    .open = heap_open,
    .start = heap_start,
    .flush = heap_flush,
    .stop = heap_stop,
    .close = heap_close,
    .counts = heap_counts,
    .dump = heap_dump,
};
