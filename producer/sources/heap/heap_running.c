// SPDX-License-Identifier: Apache-2.0
//
// Processes that run already, or start later without asking. The settings select them. A process
// that waits for a signal is woken; any other is attached to.
#include "producer/sources/heap/heap_source_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/heap/heap_owner.h"

#define AGAIN_MAX     (5 * NSEC_PER_SEC) // a program that executes others is attached to again
#define ATTACHES_MAX  6                  // at a time
#define ATTACHES_EACH 4                  // at a time, to processes of one user other than root
#define WAKES_MAX     64
#define WAKES_EACH    16 // of processes of one user other than root

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

static void attach_begin(struct heap_source *heap, int32_t pid, nsec_t first);
static void attach_next(struct heap_source *heap);

static void attach_failed(struct heap_source *heap, int32_t pid, int result, const char *text)
{
    if (!text[0])
        text = strerror(-result);
    bool is_told = result == -EBUSY && !heap_clients_note_rejected(heap, pid, false);
    bool may_come = result != -ESRCH && result != -EBUSY && result != -EPROTO && result != -EAGAIN;
    if (may_come && is_woken(heap, pid)) {
        log_info(heap->env.log,
                 "linux.heap: process %d is profiled from its next allocation on (not at once: %s)",
                 pid, text);
        return;
    }
    forget_wake(heap, pid);
    if (result == -EDQUOT)
        heap_clients_tell_refused(heap, pid, text);
    else if (!is_told)
        heap_arrivals_tell_problem(heap, pid, text);
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
    nsec_t stopped = heap_attach_stopped(attach), first = heap_attach_first(attach);
    heap_attach_free(attach);
    attach_next(heap);
    if (result == -ESTALE && nsec_now(CLOCK_BOOTTIME) < first + AGAIN_MAX) {
        if (heap_arrivals_wants(heap, pid)) // the new program
            attach_begin(heap, pid, first);
        return;
    }
    if (result < 0 && heap_clients_know(heap, pid, false))
        return; // the process itself asked meanwhile, and may have ended since
    if (result == 0 &&
        !heap_arrivals_may_profile(heap, pid)) { // it has executed another program meanwhile
        heap_owner_stop(ring_fd);
        close_fd(ring_fd);
        return;
    }
    if (result == 0) {
        result = heap_clients_add(heap, pid, ring_fd, &client, &err);
        text = err.text;
    }
    if (result < 0) {
        attach_failed(heap, pid, result, text);
        return;
    }
    forget_wake(heap, pid);
    log_info(heap->env.log, "linux.heap: process %d: attached, one thread stood still for %lld us",
             pid, (long long)(stopped / NSEC_PER_USEC));
    heap_arrivals_publish(heap, pid);
}

static bool is_being_attached(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->attaches, attach)
        if (heap_attach_pid(*attach) == pid)
            return true;
    return false;
}

// `first`: see heap_attach_env.
static void attach_begin(struct heap_source *heap, int32_t pid, nsec_t first)
{
    const struct heap_attach_env env = {heap->env.loop, heap->env.roots->foreign, first};
    struct heap_attach *attach;
    struct err err = {0};
    int r = heap_attach_vec_reserve(&heap->attaches, heap->attaches.n + 1);
    if (r == 0)
        r = heap_attach_begin(&env, &heap->settings.ring, NULL, pid, attach_done, heap, &attach,
                              &err);
    if (r == 0)
        heap_attach_vec_push(&heap->attaches, attach);
    else
        attach_failed(heap, pid, r, err.text);
}

// Helpers may hang for seconds in files of one user: others have their turn meanwhile.
static bool has_turn(const struct heap_source *heap, int32_t pid)
{
    uint64_t payer = foreign_payer(heap->env.roots->proc, pid, geteuid());
    size_t n = 0;
    vec_foreach(&heap->attaches, attach)
        n += heap_attach_payer(*attach) == payer;
    return heap->attaches.n < ATTACHES_MAX && (payer == 0 || n < ATTACHES_EACH);
}

static void attach_or_wait(struct heap_source *heap, int32_t pid)
{
    if (has_turn(heap, pid) || pid_vec_push(&heap->waiting, pid) < 0)
        attach_begin(heap, pid, 0);
}

// Begins waiting attachments, after another attachment has ended.
static void attach_next(struct heap_source *heap)
{
    for (size_t i = 0; i < heap->waiting.n;) {
        int32_t pid = heap->waiting.items[i];
        if (!has_turn(heap, pid)) {
            i++;
            continue;
        }
        memmove(heap->waiting.items + i, heap->waiting.items + i + 1,
                (--heap->waiting.n - i) * sizeof(heap->waiting.items[0]));
        attach_begin(heap, pid, 0);
    }
}

// A process that does not wait for a signal must be attached to. A process that is late may still
// ask at its next allocation, but is attached to meanwhile, if permitted.
static void wake_done(void *userdata, struct heap_wake *wake, int32_t pid, int result, int fd)
{
    struct heap_source *heap = userdata;
    (void)wake;
    if (result == -ETIMEDOUT) {
        attach_or_wait(heap, pid);
        return;
    }
    bool is_known_now = heap_clients_know(heap, pid, false);
    if (result == 0 && !is_known_now && heap_arrivals_welcome(heap, pid, fd, false) == 0)
        log_info(heap->env.log, "linux.heap: process %d: woken", pid);
    else if (result == -EBUSY && !is_known_now)
        attach_failed(heap, pid, result, HEAP_TAKEN);
    else if (result == -ESRCH && !is_known_now &&
             !is_being_attached(heap, pid)) // otherwise the attachment reports the end
        attach_failed(heap, pid, result, "it has ended");
    else if (result == -EPROTO)
        attach_failed(heap, pid, result,
                      "it has loaded another version of " HEAP_LIBRARY_FILE
                      " (restart the process)");
    else if (result == -EAGAIN)
        attach_failed(heap, pid, result, "a look-up or read of its files took too long");
    forget_wake(heap, pid);
    if (result == -ENOENT)
        attach_or_wait(heap, pid);
}

// A process that was woken and never allocates keeps its place as long as the recording.
static bool has_room_for_wake(const struct heap_source *heap, int32_t pid)
{
    uint64_t payer = foreign_payer(heap->env.roots->proc, pid, geteuid());
    size_t n = 0;
    vec_foreach(&heap->wakes, wake)
        n += heap_wake_payer(*wake) == payer;
    return heap->wakes.n < WAKES_MAX && (payer == 0 || n < WAKES_EACH);
}

static void wake_begin(struct heap_source *heap, int32_t pid)
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
}

// Returns false if the process must be examined again.
static bool target_found(void *userdata, int32_t pid)
{
    struct heap_source *heap = userdata;
    // A process may have started since the recording began, but before the first look.
    if ((heap->passing_over && heap_arrivals_ran_before(heap, pid)) || !heap->settings.native ||
        heap_clients_know(heap, pid, false) || !heap_arrivals_may_profile(heap, pid))
        return true;
    if (!has_room_for_wake(heap, pid) || heap_host_is_detaching(heap->host, pid))
        return false;
    wake_begin(heap, pid);
    return true;
}

// Reports the processes of the config that cannot be profiled because they run no program.
static void tell_missing(struct heap_source *heap)
{
    const Pb__HeapprofdConfig *config = heap->settings.config;
    heap->missing_told = true;
    for (size_t i = 0; i < config->n_pid; i++) {
        const char *why = process_lacks_program(heap->env.roots->proc, config->pid[i]);
        if (why)
            heap_arrivals_tell_problem(heap, (int32_t)config->pid[i], why);
    }
}

void heap_running_look(void *userdata)
{
    struct heap_source *heap = userdata;
    bool all_done = true;
    if (heap->settings.running && !heap->missing_told)
        tell_missing(heap);
    if (!heap->guard.hit)
        all_done = heap_targets_look(&heap->targets, &heap->settings, heap->env.roots->proc,
                                     target_found, heap);
    if (!heap->guard.hit && heap->settings.java_named)
        all_done &= heap_vms_look(heap);
    heap->passing_over = false;
    // The timer finds processes that start later. If these are not wanted, one complete look is
    // enough.
    if (!heap->settings.startup && all_done)
        loop_set_timer(heap->target_timer, NSEC_MAX, 0);
}

// Reports the processes whose wakes and waiting attachments are given up.
static void tell_left(struct heap_source *heap)
{
    vec_foreach(&heap->wakes, wake)
        if (!is_being_attached(heap, heap_wake_pid(*wake)))
            heap_arrivals_tell_left(heap, heap_wake_pid(*wake), false);
    vec_foreach(&heap->waiting, pid)
        if (!is_woken(heap, *pid))
            heap_arrivals_tell_left(heap, *pid, false);
}

// Gives up wakes and waiting attachments. Waits for running attachments if the recorder may wait;
// otherwise leaves them to the host, because their results come too late for the dump.
void heap_running_end(struct heap_source *heap)
{
    // Examinations that end in this wait can still lead to attachments.
    if (heap_host_is_alone(heap->host))
        foreign_helper_settle(heap->env.helper,
                              source_wait_until(&heap->env, HEAP_NAMES_WAIT_LAST));
    tell_left(heap);
    pid_vec_clear(&heap->waiting);
    vec_foreach(&heap->wakes, wake)
        heap_wake_free(*wake);
    heap_wake_vec_clear(&heap->wakes);
    heap_vms_done(heap);
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + HEAP_ATTACH_FINISH;
    while (heap->attaches.n > 0 && heap_host_is_alone(heap->host))
        heap_attach_finish(heap->attaches.items[0], deadline);
    vec_foreach(&heap->attaches, attach) {
        heap_arrivals_tell_left(heap, heap_attach_pid(*attach), false);
        heap_host_adopt(heap->host, *attach);
    }
    heap_attach_vec_clear(&heap->attaches);
}
