// SPDX-License-Identifier: Apache-2.0
//
// The loop reads the rings ten times a second, and more often the fuller they are: a client never
// needs a system call to wake the recorder. A dump writes the state of all profiles.
#include "producer/sources/heap/heap_source_private.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/heap/heap_smaps.h"

#define LOOK_SLOW        (100 * NSEC_PER_MSEC)
#define ASK_EVERY        NSEC_PER_SEC
#define ASK_AHEAD        (10 * NSEC_PER_MSEC)  // before a dump that cannot wait for answers
#define ANSWER_TIME      (50 * NSEC_PER_MSEC)  // maximum wait of a dump for answers
#define NAMES_WAIT       (300 * NSEC_PER_MSEC) // maximum wait of a dump for names
#define NAMES_WAIT_ALONE (30 * NSEC_PER_SEC)
#define SMAPS_REST       20 // pause between two readings of smaps, in multiples of the time of one

VEC_DEFINE(profile_process_vec, struct profile_process);

static nsec_t period_for(const struct heap_source *heap)
{
    uint64_t fullest = 0;
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended && ring_reader_used(&(*client)->ring) > fullest)
            fullest = ring_reader_used(&(*client)->ring);
    if (fullest >= heap->settings.ring.bytes / 16)
        return HEAP_LOOK_FAST;
    nsec_t slower = heap->look_period * 2;
    return slower < LOOK_SLOW ? slower : LOOK_SLOW;
}

// Asks all allocators for their state. A dump has the last answers.
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

// Gets answers for the moment of the dump, if the recorder may wait.
void heap_dumps_hear_answers(struct heap_source *heap)
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

// Returns the time of the next question: just before a dump, and each second for dumps on request.
static nsec_t next_question(const struct heap_source *heap, nsec_t now)
{
    nsec_t before_dump = heap->dump_due == NSEC_MAX ? NSEC_MAX : heap->dump_due - ASK_AHEAD;
    return before_dump > now && before_dump < now + ASK_EVERY ? before_dump : now + ASK_EVERY;
}

void heap_dumps_look(void *userdata)
{
    struct heap_source *heap = userdata;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    heap->look_period = period_for(heap); // before the rings are emptied
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended) {
            heap_clients_look_at(heap, *client);
            heap_clients_log_loss(heap, *client);
            heap_clients_log_jail(heap, *client);
            heap_clients_tell_silence(heap, *client, false);
        }
        heap_names_ask(&heap->names, *client);
    }
    heap_clients_check_guard(heap, now);
    if (now >= heap->ask_due) {
        ask_all(heap);
        heap->ask_due = next_question(heap, now);
    }
    nsec_t next = now + heap->look_period;
    loop_set_timer(heap->look_timer, next < heap->ask_due ? next : heap->ask_due, 0);
}

const char *heap_dumps_name(void *userdata, const struct book_frame *frame)
{
    struct heap_source *heap = userdata;
    return heap_names_text(&heap->names, frame);
}

// Waits for missing names. A recorder with other recordings does not wait for long; most names
// arrive while samples arrive.
static void hear_names(struct heap_source *heap, bool is_last)
{
    nsec_t wait = heap_host_is_alone(heap->host) ? NAMES_WAIT_ALONE
                  : is_last                      ? HEAP_NAMES_WAIT_LAST
                                                 : NAMES_WAIT;
    vec_foreach(&heap->clients, client)
        heap_names_ask(&heap->names, *client);
    foreign_helper_settle(heap->env.helper, source_wait_until(&heap->env, wait));
}

// Writes the mappings of each process beside its profile. The kernel walks over all memory of a
// process for smaps, and the process waits for this in mmap(). Therefore this takes at most a
// twentieth of the time.
static void write_smaps(struct heap_source *heap, bool is_last)
{
    vec_foreach(&heap->clients, item) {
        struct heap_client *client = *item;
        nsec_t before = nsec_now(CLOCK_BOOTTIME);
        if (client->rejected || client->disconnected || (before < client->smaps_due && !is_last) ||
            (client->is_java && heap_clients_have_native(heap, client->pid)))
            continue;
        int r = smaps_write(heap->env.writer, heap->env.roots->proc, client->pid);
        nsec_t after = nsec_now(CLOCK_BOOTTIME);
        client->smaps_due = after + SMAPS_REST * (after - before);
        if (r < 0 && r != -ESRCH && r != -ENOENT)
            log_debug(heap->env.log, "linux.heap: smaps of process %d: %s", client->pid,
                      process_file_strerror(r));
    }
}

static void describe_all(struct heap_source *heap, struct profile_process_vec *ret)
{
    struct profile_process heaps[HEAP_HEAPS_MAX];
    vec_foreach(&heap->clients, client) {
        size_t n = heap_client_describe(*client, &heap->settings, heap->guard.hit, heaps);
        for (size_t i = 0; i < n; i++)
            heap->n_lost += profile_process_vec_push(ret, heaps[i]) < 0;
    }
    profile_take(&heap->profile);
    write_malloc_infos(heap);
}

static void write_profiles(struct heap_source *heap, const struct profile_process_vec *processes)
{
    if (processes->n > 0 && !profile_write(&heap->profile, processes->items, processes->n))
        heap->n_lost++;
}

void heap_dumps_write(struct heap_source *heap, bool is_last)
{
    struct profile_process_vec processes CLEANUP(profile_process_vec_done) = {0};
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            heap_clients_look_at(heap, *client);
    describe_all(heap, &processes);
    write_smaps(heap, is_last); // before the names, which can take seconds
    hear_names(heap, is_last);
    write_profiles(heap, &processes);
}

void heap_dumps_write_copy(struct heap_source *heap)
{
    struct profile_process_vec processes CLEANUP(profile_process_vec_done) = {0};
    describe_all(heap, &processes);
    write_profiles(heap, &processes);
}

void heap_dumps_due(void *userdata)
{
    struct heap_source *heap = userdata;
    heap_dumps_hear_answers(heap);
    heap_dumps_write(heap, false);
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    while (heap->dump_due <= now)
        heap->dump_due += heap->settings.dump_interval;
    heap->ask_due = next_question(heap, now);
}
