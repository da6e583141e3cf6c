// SPDX-License-Identifier: Apache-2.0
//
// Writes the records of samples: allocations that take the slow path come here, and frees of
// addresses that may be samples.
//
// Nothing here calls the allocator that it watches. Nothing is touched before the thread is counted
// among the users of the ring (client_enter()).
#include <errno.h>
#include <string.h>

#include "producer/agents/heap/client_state.h"
#include "producer/agents/heap/room.h"
#include "producer/agents/heap/unwind.h"

#define LOOK_BYTES    65536 // maximum bytes that a thread allocates between two slow paths
#define TIMED_SAMPLES 16    // one sample in so many is timed and counts for all
#define DOUBLINGS_MAX 32

static void adapt_interval(void)
{
    uint32_t n = atomic_load_explicit(&client.n_doublings, memory_order_relaxed);
    uint64_t interval = client.largest_interval << n;
    if (client.adaptive_free_bytes == 0 ||
        ring_free_bytes(&client_lasting.window.ring) >= client.adaptive_free_bytes ||
        (client.adaptive_interval_bytes && interval * 2 > client.adaptive_interval_bytes) ||
        interval > UINT64_MAX / 4 || n >= DOUBLINGS_MAX ||
        !atomic_compare_exchange_strong(&client.n_doublings, &n, n + 1))
        return;
    atomic_store_explicit(&client_lasting.window.ring.header->n_doublings, n + 1,
                          memory_order_relaxed);
    client_set_interval(atomic_load_explicit(&client.interval, memory_order_relaxed) * 2);
}

unsigned client_doublings(void)
{
    return atomic_load_explicit(&client.n_doublings, memory_order_relaxed);
}

static size_t unwind_timed(uint64_t *frames)
{
    struct heap_header *header = client_lasting.window.ring.header;
    if (client_thread.in_the_list)
        return 0;
    if (client_thread.n_samples++ % TIMED_SAMPLES != 0)
        return unwind_here(frames, HEAP_FRAMES_MAX);
    int64_t before = client_now_ns();
    size_t n_frames = unwind_here(frames, HEAP_FRAMES_MAX);
    uint64_t ns = (uint64_t)(client_now_ns() - before), bucket = 0;
    for (uint64_t us = ns / 1000; us && bucket < HEAP_TIME_BUCKETS - 1; us >>= 1)
        bucket++;
    atomic_fetch_add_explicit(&header->unwind_ns, ns * TIMED_SAMPLES, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->unwind_buckets[bucket], TIMED_SAMPLES, memory_order_relaxed);
    return n_frames;
}

static void send_sample(unsigned heap, uint64_t key, uint64_t weight)
{
    uint64_t frames[HEAP_FRAMES_MAX];
    struct heap_header *header = client_lasting.window.ring.header;
    if (room_is_hopeless()) {
        losses_note(header, weight);
        return;
    }
    size_t n = unwind_timed(frames);
    if (n == 0)
        atomic_fetch_add_explicit(&header->n_unwind_errors, 1, memory_order_relaxed);
    struct heap_alloc *record = room_for_alloc(sizeof(*record) + n * sizeof(frames[0]));
    if (!record || !table_add(&client_table, key)) {
        if (record) {
            record->head.kind = HEAP_PAD;
            ring_commit(record);
        }
        losses_note(header, weight);
        return;
    }
    record->head.heap = (uint8_t)heap;
    record->head.n_frames = (uint16_t)n;
    record->address = key;
    record->weight = weight + losses_take(&client.losses, header, weight);
    memcpy(record->frames, frames, n * sizeof(frames[0]));
    ring_commit(record);
    adapt_interval();
}

static void begin_thread(struct thread_state *thread, uint32_t epoch, uint64_t interval)
{
    uint64_t seed = (uint64_t)(uintptr_t)thread * UINT64_C(0x9e3779b97f4a7c15) ^
                    (uint64_t)client_now_ns() ^ (uint64_t)epoch << 32;
    sampler_reset(&thread->sampler, seed, interval);
    sampler_reset(&thread->reported, ~seed, CLIENT_UNIT);
    thread->interval = interval;
    thread->epoch = epoch;
    thread->left = 0;
}

// Takes the points that were passed. A point stands for the interval with which it was drawn.
static uint64_t take_points(struct thread_state *thread, uint64_t interval)
{
    uint64_t weight = sampler_take(&thread->sampler, thread->interval);
    if (thread->interval != interval) {
        sampler_reset(&thread->sampler, thread->sampler.random, interval);
        thread->interval = interval;
    }
    return weight;
}

// Lets allocations pass without the slow path while the next point is far enough.
static void grant(struct thread_state *thread, uint64_t threshold)
{
    uint64_t most = threshold < LOOK_BYTES ? threshold : LOOK_BYTES;
    uint64_t left = (uint64_t)thread->sampler.left;
    thread->left = left < most ? left : most;
    thread->sampler.left -= (int64_t)thread->left;
}

static void count_allocation(struct thread_state *thread, uint32_t epoch, uint64_t key, size_t size)
{
    uint64_t interval = atomic_load_explicit(&client.interval, memory_order_relaxed);
    uint64_t threshold = sampler_threshold(interval);
    if (interval == 0) {
        thread->left = LOOK_BYTES;
        return;
    }
    if (thread->epoch != epoch)
        begin_thread(thread, epoch, interval);
    else
        thread->sampler.left += (int64_t)thread->left;
    thread->left = 0;
    if (size >= threshold) {
        send_sample(0, key, size);
    } else {
        thread->sampler.left -= (int64_t)size;
        if (thread->sampler.left <= 0)
            send_sample(0, key, take_points(thread, interval));
    }
    grant(thread, threshold);
}

static void count_report(struct thread_state *thread, uint32_t epoch,
                         const struct client_report *report)
{
    uint64_t weight = report->size;
    if (thread->epoch != epoch) {
        begin_thread(thread, epoch, atomic_load_explicit(&client.interval, memory_order_relaxed));
        if (!report->is_exact)
            thread->reported.left -=
                (int64_t)((double)report->size * (double)CLIENT_UNIT / (double)report->interval);
    }
    if (!report->is_exact)
        weight = sampler_take(&thread->reported, CLIENT_UNIT) / CLIENT_UNIT * report->interval;
    if (weight > 0)
        send_sample(report->heap, report->key, weight);
}

static void look_for_objects(void)
{
    if (client_objects_pending() && room_is_there_for_objects())
        client_objects_changed();
}

// Takes the allocator's locks: not for a thread that may have interrupted the allocator.
static void tell_of_arenas(void)
{
    if (arenas_are_asked_for(client_lasting.window.ring.header))
        arenas_tell(&client.arenas, &client_lasting.window.ring, false);
}

// The first step of a thread that has entered. Returns false if there is no profile.
static bool goes_on(uint32_t epoch)
{
    if (epoch && heap_is_stopped(client_lasting.window.ring.header)) {
        client_stop_entered();
        return false;
    }
    return epoch != 0;
}

void client_allocated(void *p, size_t size)
{
    struct thread_state *thread = &client_thread;
    if (!p || thread->inside)
        return;
    int saved = errno;
    thread->inside++;
    uint32_t epoch = client_enter(thread);
    if (!epoch) {
        bool is_child = client_follow_parent();
        thread->left = is_child ? 0 : LOOK_BYTES;
        thread->epoch = 0;
        if (!is_child)
            client_rest();
    } else if (goes_on(epoch)) {
        count_allocation(thread, epoch, (uint64_t)(uintptr_t)p, size);
        look_for_objects();
        tell_of_arenas();
    }
    client_leave(thread);
    if (__builtin_expect(atomic_load_explicit(&client_lasting.summons, memory_order_relaxed) != 0,
                         0) &&
        !atomic_load(&client.epoch))
        client_follow_summons();
    thread->inside--;
    errno = saved;
}

bool client_reported(const struct client_report *report)
{
    struct thread_state *thread = &client_thread;
    if (!client.is_there)
        return false;
    if (thread->inside)
        return true;
    int saved = errno;
    thread->inside++;
    uint32_t epoch = client_enter(thread);
    if (goes_on(epoch)) {
        count_report(thread, epoch, report);
        look_for_objects();
    }
    client_leave(thread);
    thread->inside--;
    errno = saved;
    return true;
}

// Writes the record of a sample that was taken out of the table.
static void send_free(unsigned heap, uint64_t key)
{
    struct heap_free *record = room_for_free(sizeof(*record));
    if (record) {
        record->head.heap = (uint8_t)heap;
        record->address = key;
        ring_commit(record);
    } else {
        atomic_fetch_add_explicit(&client_lasting.window.ring.header->n_lost_frees, 1,
                                  memory_order_relaxed);
    }
}

static bool free_key(unsigned heap, uint64_t key)
{
    struct thread_state *thread = &client_thread;
    int saved = errno;
    bool was_sample = client_enter(thread) && table_remove(&client_table, key);
    if (was_sample)
        send_free(heap, key);
    client_leave(thread);
    errno = saved;
    return was_sample;
}

bool client_freeing(void *p)
{
    return free_key(0, (uint64_t)(uintptr_t)p);
}

void client_report_free(unsigned heap, uint64_t key)
{
    free_key(heap, key);
}

static void freed_in_range(void *userdata, uint64_t key)
{
    send_free(*(const unsigned *)userdata, key);
}

void client_report_free_range(unsigned heap, uint64_t start, uint64_t size)
{
    struct thread_state *thread = &client_thread;
    int saved = errno;
    if (client_enter(thread))
        table_remove_range(&client_table, HEAP_KEY(heap, 0), start, size, freed_in_range, &heap);
    client_leave(thread);
    errno = saved;
}

// Adds the sample again, with the weight that a sample of this size most likely had.
void client_kept(void *p, size_t size)
{
    struct thread_state *thread = &client_thread;
    int saved = errno;
    thread->inside++;
    if (client_enter(thread)) {
        uint64_t interval = atomic_load_explicit(&client.interval, memory_order_relaxed);
        send_sample(0, (uint64_t)(uintptr_t)p, size > interval ? size : interval);
    }
    client_leave(thread);
    thread->inside--;
    errno = saved;
}
