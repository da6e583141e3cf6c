// SPDX-License-Identifier: Apache-2.0
//
// A part of the ring is reserved for frees and objects, so that only allocations are lost. The
// recorder may die at any time: the kernel stops the profile then. A recorder may also stand still:
// then its heartbeat stops. A client that finds the ring full waits for some seconds, counts losses
// from then on, and finally takes its hooks out itself.
#include "producer/agents/heap/room.h"

#include "producer/agents/heap/client_state.h"

#define FREE_RESERVE 8 // an eighth of the ring is reserved for frees and objects
#define WAIT_NS      100000
#define SILENCE_NS   INT64_C(5000000000)   // silence after which no thread waits for the recorder
#define DEATH_NS     INT64_C(600000000000) // silence after which the recorder counts as dead

// Returns whether waiting for room is useless. A live recorder looks at the ring several times a
// second.
static bool recorder_is_silent(void)
{
    struct heap_header *header = client_lasting.window.ring.header;
    unsigned heartbeat = atomic_load_explicit(&header->heartbeat, memory_order_relaxed);
    int64_t now = client_now_ns(), since = atomic_load(&client.full_since_ns);
    if (since == 0 || atomic_load(&client.full_heartbeat) != heartbeat) {
        atomic_store(&client.full_heartbeat, heartbeat);
        atomic_store(&client.full_since_ns, now);
        since = now;
    }
    if (now - since >= DEATH_NS)
        heap_set_stopped(header); // the next slow path takes the hooks out
    bool silent = now - since >= SILENCE_NS;
    atomic_store_explicit(&client.is_silent, silent, memory_order_relaxed);
    return silent;
}

static bool wait_for_room(int64_t *since_ns)
{
    struct heap_header *header = client_lasting.window.ring.header;
    if (heap_is_stopped(header) || recorder_is_silent())
        return false;
    if (!(client.flags & HEAP_BLOCK_CLIENT) || atomic_load(&header->hit_timeout))
        return false;
    int64_t now = client_now_ns();
    if (*since_ns == 0)
        *since_ns = now;
    if (client.block_timeout_us && now - *since_ns >= (int64_t)client.block_timeout_us * 1000) {
        atomic_store(&header->hit_timeout, 1);
        return false;
    }
    int cancel = client_cancel_off();
    nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    client_cancel_restore(cancel);
    return true;
}

static void *reserve(enum heap_record_kind kind, size_t size, uint64_t left_free)
{
    int64_t since_ns = 0;
    void *record;
    while (!(record = ring_reserve(&client_lasting.window.ring, kind, size, left_free)))
        if (!wait_for_room(&since_ns))
            break;
    if (since_ns)
        atomic_fetch_add_explicit(&client_lasting.window.ring.header->blocked_us,
                                  (uint64_t)(client_now_ns() - since_ns) / 1000,
                                  memory_order_relaxed);
    return record;
}

void *room_for_alloc(size_t size)
{
    return reserve(HEAP_ALLOC, size, client_lasting.window.ring.bytes / FREE_RESERVE);
}

void *room_for_free(size_t size)
{
    return reserve(HEAP_FREE, size, 0);
}

bool room_is_hopeless(void)
{
    return __builtin_expect(atomic_load_explicit(&client.is_silent, memory_order_relaxed), 0) &&
           ring_free_bytes(&client_lasting.window.ring) <
               client_lasting.window.ring.bytes / FREE_RESERVE * 2 &&
           recorder_is_silent();
}

bool room_is_there_for_objects(void)
{
    return ring_free_bytes(&client_lasting.window.ring) >=
           client_lasting.window.ring.bytes / FREE_RESERVE;
}
