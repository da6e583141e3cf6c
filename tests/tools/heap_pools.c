// SPDX-License-Identifier: Apache-2.0
//
// A program with a pool and an arena of its own, which allocate known amounts in functions of known
// names:
//
//     heap_pools [THREADS [ROUNDS [-]]]
//
// In each round of each thread, keep_session() keeps a slot of 96 bytes of the pool
// "truth.sessions", drop_session() takes such a slot and gives it back, and keep_text() takes 40
// bytes of the arena "truth.texts". In every hundredth round, drop_texts() takes 30 pieces of 70
// bytes of the arena "truth.scratch" and empties the arena. With a third argument, one thread does
// ROUNDS rounds and frees all memory, again and again until standard input ends. At the end the
// program prints how often the recording of "truth.sessions" began, and how often it ended.
#include <mmheap.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

#define SESSION_BYTES 96
#define TEXT_BYTES    40
#define SCRATCH_BYTES 70
#define CHUNK_BYTES   65536

struct slot {
    struct slot *next;
    char rest[SESSION_BYTES - sizeof(struct slot *)];
};

struct chunk {
    struct chunk *next;
    size_t used;
    char bytes[CHUNK_BYTES];
};

struct pools {
    unsigned rounds;
    struct slot *free_slots;
    struct slot *kept;
    struct chunk *texts, *scratch;
};

static struct mmheap *sessions, *texts, *scratch;
static int n_on, n_off;

NOINLINE void *pool_take(struct pools *pools);
NOINLINE void pool_give(struct pools *pools, void *p);
NOINLINE void *arena_take(struct chunk **arena, struct mmheap *heap, size_t size);
NOINLINE void arena_empty(struct chunk **arena, struct mmheap *heap);
NOINLINE void keep_session(struct pools *pools);
NOINLINE void drop_session(struct pools *pools);
NOINLINE void keep_text(struct pools *pools);
NOINLINE void drop_texts(struct pools *pools);

void *pool_take(struct pools *pools)
{
    struct slot *slot = pools->free_slots;
    if (slot)
        pools->free_slots = slot->next;
    else if (!(slot = malloc(sizeof(*slot))))
        abort();
    mmheap_report_alloc(sessions, slot, sizeof(*slot));
    return slot;
}

void pool_give(struct pools *pools, void *p)
{
    struct slot *slot = p;
    mmheap_report_free(sessions, slot);
    slot->next = pools->free_slots;
    pools->free_slots = slot;
}

void *arena_take(struct chunk **arena, struct mmheap *heap, size_t size)
{
    struct chunk *chunk = *arena;
    if (!chunk || chunk->used + size > CHUNK_BYTES) {
        if (!(chunk = malloc(sizeof(*chunk))))
            abort();
        chunk->next = *arena;
        chunk->used = 0;
        *arena = chunk;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += size;
    mmheap_report_alloc(heap, p, size);
    return p;
}

void arena_empty(struct chunk **arena, struct mmheap *heap)
{
    while (*arena) {
        struct chunk *chunk = *arena;
        mmheap_report_free_range(heap, chunk->bytes, chunk->used);
        *arena = chunk->next;
        free(chunk);
    }
}

void keep_session(struct pools *pools)
{
    struct slot *slot = pool_take(pools);
    slot->next = pools->kept;
    pools->kept = slot;
}

void drop_session(struct pools *pools)
{
    pool_give(pools, pool_take(pools));
}

void keep_text(struct pools *pools)
{
    arena_take(&pools->texts, texts, TEXT_BYTES);
}

void drop_texts(struct pools *pools)
{
    for (int i = 0; i < 30; i++)
        arena_take(&pools->scratch, scratch, SCRATCH_BYTES);
    arena_empty(&pools->scratch, scratch);
}

static void *run(void *userdata)
{
    struct pools *pools = userdata;
    for (unsigned i = 0; i < pools->rounds; i++) {
        keep_session(pools);
        drop_session(pools);
        keep_text(pools);
        if (i % 100 == 0)
            drop_texts(pools);
    }
    return NULL;
}

static void changed(void *userdata, size_t interval)
{
    (void)userdata;
    if (interval)
        n_on++;
    else
        n_off++;
}

static void run_on(struct pools *pools)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, 0) == 0) {
        run(pools);
        arena_empty(&pools->texts, texts);
        while (pools->kept) {
            struct slot *slot = pools->kept;
            pools->kept = slot->next;
            pool_give(pools, slot);
        }
    }
}

int main(int argc, char **argv)
{
    static struct pools pools[64];
    pthread_t threads[64];
    int n = argc > 1 ? atoi(argv[1]) : 1;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 50000;
    if (n < 1 || n > 64)
        return 2;
    sessions = mmheap_register("truth.sessions", changed, NULL);
    texts = mmheap_register("truth.texts", NULL, NULL);
    scratch = mmheap_register("truth.scratch", NULL, NULL);
    if (mmheap_register("truth.texts", NULL, NULL) != texts)
        return 1;
    for (int i = 0; i < n; i++)
        pools[i].rounds = rounds;
    if (argc > 3)
        run_on(&pools[0]);
    for (int i = 0; argc <= 3 && i < n; i++)
        if (pthread_create(&threads[i], NULL, run, &pools[i]) != 0)
            return 1;
    for (int i = 0; argc <= 3 && i < n; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", n_on, n_off);
    return 0;
}
