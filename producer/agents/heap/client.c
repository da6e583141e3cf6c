// SPDX-License-Identifier: Apache-2.0
//
// Life of a profile: start (the ring is mapped, hooks go in) -> samples -> stop (hooks go out, the
// ring's place is covered by empty memory). The process may have any number of profiles one after
// the other.
//
// Nothing here calls the allocator that it watches: memory is static, but for the ring and the
// table of samples, which the recorder shares. Threads that use these are counted (enter() and
// leave()); they are unmapped when nobody does, otherwise empty memory takes their place, so that a
// thread that is late finds memory wherever it looks. The state and the table's filter are wiped by
// the kernel in a child after fork; what is in the ring's order there would be the parent's. A
// child after vfork shares memory and heap with its parent and is seen as the parent.
//
// The recorder may stand still or die at any time: its heartbeat stops. A client that finds the
// ring full then waits for some seconds, counts its losses from there on, and in the end takes its
// hooks out by itself.
//
// Allocation is no cancellation point, so what may be one here is done with cancellation off.
#include "producer/agents/heap/client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#include "producer/agents/heap/arenas.h"
#include "producer/agents/heap/dormant.h"
#include "producer/agents/heap/got.h"
#include "producer/agents/heap/heaps.h"
#include "producer/agents/heap/hooks.h"
#include "producer/agents/heap/losses.h"
#include "producer/agents/heap/objects.h"
#include "producer/agents/heap/unwind.h"
#include "producer/agents/heap/window.h"

#pragma weak __libc_single_threaded // musl has none

#define PAGE_MAX       65536
#define FREE_RESERVE   8     // an eighth of the ring is for frees and objects
#define LOOK_BYTES     65536 // a thread allocates at most between two looks
#define WAIT_NS        100000
#define SILENCE_NS     INT64_C(5000000000)   // of the recorder, after which nobody waits for it
#define DEATH_NS       INT64_C(600000000000) // and after which it counts as dead
#define PRESENT_SHARDS 16
#define TIMED_SAMPLES  16 // one in so many is timed, and counts for all
#define DOUBLINGS_MAX  32
#define FIRST_MAX      128 // objects that the program begins with

struct present {
    _Alignas(64) atomic_uint n;
};

struct client {
    atomic_uint epoch; // of the profile; 0: there is none
    uint32_t flags, block_timeout_us;
    uint64_t adaptive_free_bytes, adaptive_interval_bytes;
    _Atomic uint64_t interval; // of malloc; 0: it is not sampled
    _Atomic uint32_t n_doublings;
    uint64_t largest_interval;              // that was asked for
    bool is_there;                          // not so in a child after fork
    struct present present[PRESENT_SHARDS]; // threads that use the ring
    atomic_bool rested;                     // after a fork
    atomic_bool walking;                    // somebody changes the GOTs
    atomic_uint pending;                    // objects may have come
    // Since the ring is full.
    _Atomic int64_t full_since_ns;
    atomic_uint full_heartbeat;
    atomic_bool is_silent; // the recorder, for longer than anybody waits
    struct losses losses;
    struct arenas_turn arenas;
};

static union {
    struct client client;
    char page[PAGE_MAX];
} state __attribute__((aligned(PAGE_MAX)));

_Static_assert(sizeof(struct client) <= PAGE_MAX, "one page");

struct address_table client_table __attribute__((aligned(PAGE_MAX)));
__thread struct thread_state client_thread __attribute__((tls_model("initial-exec")));

// Not wiped: what is so in a child, too.
static struct {
    struct window window; // of the ring
    atomic_bool hooked;
    atomic_uint last_epoch;
    bool prepared, unwinder_prepared;
    _Atomic uint64_t summons; // that waits for an allocation; 0: none
    struct dl_phdr_info first[FIRST_MAX];
    size_t n_first;
} lasting;

#define client (&state.client)

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int cancel_off(void)
{
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static void cancel_restore(int before)
{
    pthread_setcancelstate(before, NULL);
}

// Who uses the ring.

static atomic_uint *present_of(const struct thread_state *thread)
{
    uint64_t place = (uint64_t)(uintptr_t)thread >> 12;
    return &client->present[(place ^ place >> 11) % PRESENT_SHARDS].n;
}

// The epoch, 0: there is no profile and nothing may be touched. leave() in any case.
static uint32_t enter(const struct thread_state *thread)
{
    atomic_fetch_add(present_of(thread), 1);
    return atomic_load(&client->epoch);
}

static void leave(const struct thread_state *thread)
{
    atomic_fetch_sub_explicit(present_of(thread), 1, memory_order_release);
}

static unsigned n_present(void)
{
    unsigned n = 0;
    for (int i = 0; i < PRESENT_SHARDS; i++)
        n += atomic_load(&client->present[i].n);
    return n;
}

// Hooks.

static void object_seen(void *userdata, const struct dl_phdr_info *info)
{
    if (userdata) {
        objects_seen(info);
        heaps_seen(info);
    } else {
        heaps_leave(info);
    }
}

static bool begin_walk(void)
{
    return !atomic_exchange_explicit(&client->walking, true, memory_order_acquire);
}

static void end_walk(void)
{
    atomic_store_explicit(&client->walking, false, memory_order_release);
}

static const void *spared[2];

static struct got_walk new_walk(bool install)
{
    return (struct got_walk){
        .hooks = hooks_table,
        .n_hooks = hooks_n,
        .install = install,
        .spared = spared,
        .n_spared = 2,
    };
}

static void walk_objects(bool install)
{
    struct got_walk walk = new_walk(install);
    walk.seen = object_seen;
    walk.userdata = install ? client : NULL;
    got_walk_objects(&walk);
    atomic_store(&lasting.hooked, install);
}

static void install_hooks(void)
{
    enum objects_result result;
    int rounds = 0;
    do {
        objects_begin(&lasting.window.ring);
        heaps_begin(&lasting.window.ring);
        walk_objects(true);
        result = objects_end();
        if (result == OBJECTS_GONE)
            unwind_forget();
    } while (result == OBJECTS_GONE && ++rounds < 3);
    if (result != OBJECTS_TOLD || !heaps_end())
        atomic_store(&client->pending, 1);
}

void client_objects_changed(void)
{
    struct thread_state *thread = &client_thread;
    if (!atomic_load(&client->epoch) || !begin_walk()) {
        atomic_store(&client->pending, 1);
        return;
    }
    int saved = errno, cancel = cancel_off();
    thread->inside++;
    atomic_store(&client->pending, 0);
    if (enter(thread))
        install_hooks();
    leave(thread);
    thread->inside--;
    end_walk();
    cancel_restore(cancel);
    errno = saved;
}

void client_objects_changed_soon(void)
{
    atomic_store(&client->pending, 2);
}

bool client_objects_pending(void)
{
    return atomic_load_explicit(&client->pending, memory_order_relaxed) != 0;
}

// Start and stop.

// `n_own`: how often the caller itself is counted. Who comes from now on finds no profile.
static void drop_ring(unsigned n_own)
{
    madvise(client_table.filter, sizeof(client_table.filter), MADV_DONTNEED);
    window_leave(&lasting.window, n_present() != n_own);
}

static int find_own_code(struct dl_phdr_info *info, size_t size, void *userdata)
{
    uintptr_t here = (uintptr_t)client_start, start = UINTPTR_MAX, end = 0;
    (void)size;
    (void)userdata;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        start = at < start ? at : start;
        end = at + info->dlpi_phdr[i].p_memsz > end ? at + info->dlpi_phdr[i].p_memsz : end;
    }
    if (here < start || here >= end)
        return 0;
    unwind_prepare((const void *)start, (const void *)end);
    return 1;
}

static int prepare_hooks(void)
{
    if (lasting.prepared)
        return 0;
    if (!unwind_is_there())
        return -ELIBACC;
    if (madvise(&state, sizeof(state), MADV_WIPEONFORK) < 0 ||
        madvise(client_table.filter, sizeof(client_table.filter), MADV_WIPEONFORK) < 0)
        return -errno;
    spared[0] = (const void *)(uintptr_t)client_start;
    spared[1] = unwind_code();
    hooks_resolve();
    arenas_prepare(hooks_allocator());
    lasting.prepared = true;
    return 0;
}

static int prepare(void)
{
    int r = prepare_hooks();
    if (r == 0 && !lasting.unwinder_prepared)
        dl_iterate_phdr(find_own_code, NULL);
    lasting.unwinder_prepared |= r == 0;
    return r;
}

static void set_interval(uint64_t interval)
{
    atomic_store_explicit(&client->interval, interval, memory_order_relaxed);
    atomic_store_explicit(&lasting.window.ring.header->interval_bytes, interval,
                          memory_order_relaxed);
}

static void begin_profile(const struct heap_header *header)
{
    client_table.slots = lasting.window.slots;
    client->flags = header->flags;
    client->block_timeout_us = header->block_timeout_us;
    client->adaptive_free_bytes = header->adaptive_free_bytes;
    client->adaptive_interval_bytes = header->adaptive_interval_bytes;
    atomic_store(&client->full_since_ns, 0);
    atomic_store(&client->is_silent, false);
    client->arenas.due_ns = 0;
    atomic_store(&client->n_doublings, 0);
    client->largest_interval = heaps_largest_interval(header);
    client->is_there = true;
    set_interval(header->interval_bytes);
    objects_reset();
    heaps_reset();
    uint32_t epoch = atomic_fetch_add(&lasting.last_epoch, 1) + 1;
    atomic_store(&client->epoch, epoch ? epoch : 1);
    install_hooks();
    if (__libc_single_threaded)
        arenas_tell(&client->arenas, &lasting.window.ring,
                    false); // otherwise locks may have to be waited for, and somebody else will
}

// Between begin_walk() and end_walk().
static int start(int fd)
{
    struct heap_header header;
    int r = window_check(fd, &header);
    if (r < 0)
        return r;
    if (atomic_load(&client->epoch))
        return -EBUSY;
    int cancel = cancel_off();
    client_thread.inside++;
    r = prepare();
    if (r == 0)
        r = window_map(&lasting.window, fd, header.ring_bytes, n_present() > 0);
    if (r == 0)
        begin_profile(&header);
    client_thread.inside--;
    cancel_restore(cancel);
    return r;
}

// One that has been told to end does not count: it ends at the next look.
static bool has_profile(void)
{
    struct thread_state *thread = &client_thread;
    bool has = enter(thread) &&
               !atomic_load_explicit(&lasting.window.ring.header->stop, memory_order_relaxed);
    leave(thread);
    return has;
}

int client_start(int fd)
{
    if (!has_profile())
        client_stop(); // what may be left of the last one
    if (!begin_walk())
        return -EBUSY;
    int r = start(fd);
    end_walk();
    return r;
}

// Summons.

static int keep_first(struct dl_phdr_info *info, size_t size, void *userdata)
{
    (void)size;
    (void)userdata;
    if (lasting.n_first < FIRST_MAX)
        lasting.first[lasting.n_first++] = *info;
    return 0;
}

int client_prepare(void)
{
    int r = prepare_hooks();
    if (r == 0)
        dl_iterate_phdr(keep_first, NULL);
    return r;
}

// The objects that the program began with are never unloaded, and one of them is where the next
// allocation comes from: their hooks are enough to be called. If somebody else is at the entries,
// the summons has to come again.
bool client_summon(uint64_t summons)
{
    if (has_profile())
        return false;
    int cancel = cancel_off();
    atomic_store(&lasting.summons, summons);
    if (!atomic_load(&client->epoch) && begin_walk()) {
        struct got_walk walk = new_walk(true);
        for (size_t i = 0; i < lasting.n_first; i++)
            got_walk_object(&walk, &lasting.first[i]);
        atomic_store(&lasting.hooked, true);
        end_walk();
    }
    cancel_restore(cancel);
    return true;
}

// While somebody is at the entries, which may be the handler itself in another thread, the summons
// waits for the allocation after this.
static void follow_summons(void)
{
    if (!begin_walk())
        return;
    int cancel = cancel_off();
    uint64_t summons = atomic_exchange(&lasting.summons, 0);
    int fd = summons ? dormant_answer(summons) : -1;
    if (summons && (fd < 0 || start(fd) < 0) && !atomic_load(&client->epoch))
        walk_objects(false);
    if (fd >= 0)
        close(fd);
    cancel_restore(cancel);
    end_walk();
}

void client_finish(void)
{
    client_thread.inside++;
    if (enter(&client_thread))
        arenas_tell(&client->arenas, &lasting.window.ring, true);
    leave(&client_thread);
    client_thread.inside--;
}

void client_answer(void)
{
    client_thread.inside++;
    if (enter(&client_thread) && arenas_are_asked_for(lasting.window.ring.header))
        arenas_tell(&client->arenas, &lasting.window.ring, false);
    leave(&client_thread);
    client_thread.inside--;
}

static void stop(unsigned n_own)
{
    if (!begin_walk())
        return; // there will be another sample
    int cancel = cancel_off();
    if (atomic_exchange(&client->epoch, 0)) {
        client_thread.inside++;
        walk_objects(false);
        atomic_store(&lasting.window.ring.header->gone, 1);
        drop_ring(n_own);
        client_thread.inside--;
    }
    end_walk();
    cancel_restore(cancel);
}

void client_stop(void)
{
    stop(0);
}

// Samples.

// Of a thread without profile. A child after fork takes the hooks out if no other thread can have
// been in the loader when it was made.
static void rest(struct thread_state *thread)
{
    thread->left = LOOK_BYTES;
    thread->epoch = 0;
    if (!atomic_load(&lasting.hooked) || atomic_exchange(&client->rested, true) ||
        !__libc_single_threaded || !begin_walk())
        return;
    int cancel = cancel_off();
    walk_objects(false);
    window_cover(&lasting.window);
    end_walk();
    cancel_restore(cancel);
}

// Whether the full ring is worth waiting for. The recorder looks at it several times a second.
static bool recorder_is_silent(void)
{
    struct heap_header *header = lasting.window.ring.header;
    unsigned heartbeat = atomic_load_explicit(&header->heartbeat, memory_order_relaxed);
    int64_t now = now_ns(), since = atomic_load(&client->full_since_ns);
    if (since == 0 || atomic_load(&client->full_heartbeat) != heartbeat) {
        atomic_store(&client->full_heartbeat, heartbeat);
        atomic_store(&client->full_since_ns, now);
        since = now;
    }
    if (now - since >= DEATH_NS)
        atomic_store(&header->stop, 1); // the next look takes the hooks out
    bool silent = now - since >= SILENCE_NS;
    atomic_store_explicit(&client->is_silent, silent, memory_order_relaxed);
    return silent;
}

static bool wait_for_room(int64_t *since_ns)
{
    struct heap_header *header = lasting.window.ring.header;
    if (atomic_load_explicit(&header->stop, memory_order_relaxed) || recorder_is_silent())
        return false;
    if (!(client->flags & HEAP_BLOCK_CLIENT) || atomic_load(&header->hit_timeout))
        return false;
    int64_t now = now_ns();
    if (*since_ns == 0)
        *since_ns = now;
    if (client->block_timeout_us && now - *since_ns >= (int64_t)client->block_timeout_us * 1000) {
        atomic_store(&header->hit_timeout, 1);
        return false;
    }
    int cancel = cancel_off();
    nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    cancel_restore(cancel);
    return true;
}

static void *reserve(enum heap_record_kind kind, size_t size, uint64_t left_free)
{
    int64_t since_ns = 0;
    void *record;
    while (!(record = ring_reserve(&lasting.window.ring, kind, size, left_free)))
        if (!wait_for_room(&since_ns))
            break;
    if (since_ns)
        atomic_fetch_add_explicit(&lasting.window.ring.header->blocked_us,
                                  (uint64_t)(now_ns() - since_ns) / 1000, memory_order_relaxed);
    return record;
}

static void adapt_interval(void)
{
    uint32_t n = atomic_load_explicit(&client->n_doublings, memory_order_relaxed);
    uint64_t interval = client->largest_interval << n;
    if (client->adaptive_free_bytes == 0 ||
        ring_free_bytes(&lasting.window.ring) >= client->adaptive_free_bytes ||
        (client->adaptive_interval_bytes && interval * 2 > client->adaptive_interval_bytes) ||
        interval > UINT64_MAX / 4 || n >= DOUBLINGS_MAX ||
        !atomic_compare_exchange_strong(&client->n_doublings, &n, n + 1))
        return;
    atomic_store_explicit(&lasting.window.ring.header->n_doublings, n + 1, memory_order_relaxed);
    set_interval(atomic_load_explicit(&client->interval, memory_order_relaxed) * 2);
}

unsigned client_doublings(void)
{
    return atomic_load_explicit(&client->n_doublings, memory_order_relaxed);
}

static size_t unwind_timed(uint64_t *frames)
{
    struct heap_header *header = lasting.window.ring.header;
    if (client_thread.in_the_list)
        return 0;
    if (client_thread.n_samples++ % TIMED_SAMPLES != 0)
        return unwind_here(frames, HEAP_FRAMES_MAX);
    int64_t before = now_ns();
    size_t n_frames = unwind_here(frames, HEAP_FRAMES_MAX);
    uint64_t ns = (uint64_t)(now_ns() - before), bucket = 0;
    for (uint64_t us = ns / 1000; us && bucket < HEAP_TIME_BUCKETS - 1; us >>= 1)
        bucket++;
    atomic_fetch_add_explicit(&header->unwind_ns, ns * TIMED_SAMPLES, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->unwind_buckets[bucket], TIMED_SAMPLES, memory_order_relaxed);
    return n_frames;
}

// Before the stack is looked at, which would be for nothing.
static bool is_lost_anyway(void)
{
    return __builtin_expect(atomic_load_explicit(&client->is_silent, memory_order_relaxed), 0) &&
           ring_free_bytes(&lasting.window.ring) < lasting.window.ring.bytes / FREE_RESERVE * 2 &&
           recorder_is_silent();
}

static void send_sample(unsigned heap, uint64_t key, uint64_t weight)
{
    uint64_t frames[HEAP_FRAMES_MAX];
    struct heap_header *header = lasting.window.ring.header;
    if (is_lost_anyway()) {
        losses_note(header, weight);
        return;
    }
    size_t n = unwind_timed(frames);
    if (n == 0)
        atomic_fetch_add_explicit(&header->n_unwind_errors, 1, memory_order_relaxed);
    struct heap_alloc *record = reserve(HEAP_ALLOC, sizeof(*record) + n * sizeof(frames[0]),
                                        lasting.window.ring.bytes / FREE_RESERVE);
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
    record->weight = weight + losses_take(&client->losses, header, weight);
    memcpy(record->frames, frames, n * sizeof(frames[0]));
    ring_commit(record);
    adapt_interval();
}

static void begin_thread(struct thread_state *thread, uint32_t epoch, uint64_t interval)
{
    uint64_t seed = (uint64_t)(uintptr_t)thread * UINT64_C(0x9e3779b97f4a7c15) ^
                    (uint64_t)now_ns() ^ (uint64_t)epoch << 32;
    sampler_reset(&thread->sampler, seed, interval);
    sampler_reset(&thread->reported, ~seed, CLIENT_UNIT);
    thread->interval = interval;
    thread->epoch = epoch;
    thread->left = 0;
}

// The point that was reached was drawn with the interval of then, and stands for that.
static uint64_t take_points(struct thread_state *thread, uint64_t interval)
{
    uint64_t weight = sampler_take(&thread->sampler, thread->interval);
    if (thread->interval != interval) {
        sampler_reset(&thread->sampler, thread->sampler.random, interval);
        thread->interval = interval;
    }
    return weight;
}

// What is far enough from the next point passes without a look.
static void grant(struct thread_state *thread, uint64_t threshold)
{
    uint64_t most = threshold < LOOK_BYTES ? threshold : LOOK_BYTES;
    uint64_t left = (uint64_t)thread->sampler.left;
    thread->left = left < most ? left : most;
    thread->sampler.left -= (int64_t)thread->left;
}

static void count_allocation(struct thread_state *thread, uint32_t epoch, uint64_t key, size_t size)
{
    uint64_t interval = atomic_load_explicit(&client->interval, memory_order_relaxed);
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
        begin_thread(thread, epoch, atomic_load_explicit(&client->interval, memory_order_relaxed));
        if (!report->is_exact)
            thread->reported.left -=
                (int64_t)((double)report->size * (double)CLIENT_UNIT / (double)report->interval);
    }
    if (!report->is_exact)
        weight = sampler_take(&thread->reported, CLIENT_UNIT) / CLIENT_UNIT * report->interval;
    if (weight > 0)
        send_sample(report->heap, report->key, weight);
}

// Objects cannot be told of while the ring is full.
static bool has_room_for_objects(void)
{
    return ring_free_bytes(&lasting.window.ring) >= lasting.window.ring.bytes / FREE_RESERVE;
}

static void do_what_is_due(void)
{
    if (client_objects_pending() && has_room_for_objects())
        client_objects_changed();
    if (arenas_are_asked_for(lasting.window.ring.header))
        arenas_tell(&client->arenas, &lasting.window.ring, false);
}

// Before anything else is done for a thread that has entered. False: there is no profile.
static bool goes_on(uint32_t epoch)
{
    if (epoch && atomic_load_explicit(&lasting.window.ring.header->stop, memory_order_relaxed)) {
        stop(1);
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
    uint32_t epoch = enter(thread);
    if (!epoch) {
        rest(thread);
    } else if (goes_on(epoch)) {
        count_allocation(thread, epoch, (uint64_t)(uintptr_t)p, size);
        do_what_is_due();
    }
    leave(thread);
    if (__builtin_expect(atomic_load_explicit(&lasting.summons, memory_order_relaxed) != 0, 0) &&
        !atomic_load(&client->epoch))
        follow_summons();
    thread->inside--;
    errno = saved;
}

bool client_reported(const struct client_report *report)
{
    struct thread_state *thread = &client_thread;
    if (!client->is_there)
        return false;
    if (thread->inside)
        return true;
    int saved = errno;
    thread->inside++;
    uint32_t epoch = enter(thread);
    if (goes_on(epoch)) {
        count_report(thread, epoch, report);
        do_what_is_due();
    }
    leave(thread);
    thread->inside--;
    errno = saved;
    return true;
}

// A sample that is out of the table.
static void send_free(unsigned heap, uint64_t key)
{
    struct heap_free *record = reserve(HEAP_FREE, sizeof(*record), 0);
    if (record) {
        record->head.heap = (uint8_t)heap;
        record->address = key;
        ring_commit(record);
    } else {
        atomic_fetch_add_explicit(&lasting.window.ring.header->n_lost_frees, 1,
                                  memory_order_relaxed);
    }
}

static bool free_key(unsigned heap, uint64_t key)
{
    struct thread_state *thread = &client_thread;
    int saved = errno;
    bool was_sample = enter(thread) && table_remove(&client_table, key);
    if (was_sample)
        send_free(heap, key);
    leave(thread);
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
    if (enter(thread))
        table_remove_range(&client_table, HEAP_KEY(heap, 0), start, size, freed_in_range, &heap);
    leave(thread);
    errno = saved;
}

// With the weight that a sample of its size has most likely had.
void client_kept(void *p, size_t size)
{
    struct thread_state *thread = &client_thread;
    int saved = errno;
    thread->inside++;
    if (enter(thread)) {
        uint64_t interval = atomic_load_explicit(&client->interval, memory_order_relaxed);
        send_sample(0, (uint64_t)(uintptr_t)p, size > interval ? size : interval);
    }
    leave(thread);
    thread->inside--;
    errno = saved;
}
