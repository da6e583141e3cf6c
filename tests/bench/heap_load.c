// SPDX-License-Identifier: Apache-2.0
//
// usage: bench_heap_load THREADS SECONDS [DEPTH [BLOCKS]]
//
// Each thread keeps BLOCKS (256, a power of two) blocks of 16 to 512 bytes and, DEPTH (20) calls
// deep, frees one and allocates another, again and again. Prints nanoseconds of a thread per free
// and malloc: of CPU time, which others on the machine do not change, and of time as it passes,
// waiting included.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define A_LOOK   20000 // operations between two looks at the clock
#define NOINLINE __attribute__((noinline))

struct load {
    void **kept;
    uint64_t n_kept, random, n;
    double seconds, cpu_seconds;
    int depth;
};

static double seconds_of(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

NOINLINE static void exchange(struct load *load)
{
    for (int i = 0; i < A_LOOK; i++) {
        load->random = load->random * UINT64_C(6364136223846793005) + 1442695040888963407;
        void **slot = &load->kept[load->random >> 33 & (load->n_kept - 1)];
        free(*slot);
        *slot = malloc(16 + (load->random >> 50) % 497);
    }
    load->n += A_LOOK;
}

// Each call needs its frame: the compiler must not see that nothing happens after the inner call.
NOINLINE static int descend(struct load *load, int depth)
{
    int n = 0;
    if (depth == 0)
        exchange(load);
    else
        n = descend(load, depth - 1) + 1;
    __asm__ volatile("" : "+r"(n));
    return n;
}

static void *run(void *userdata)
{
    struct load *load = userdata;
    load->kept = calloc(load->n_kept, sizeof(*load->kept));
    if (!load->kept)
        return NULL;
    for (uint64_t i = 0; i < 4 * load->n_kept; i += A_LOOK)
        exchange(load); // what comes first is the kernel's work
    load->n = 0;
    double began = seconds_of(CLOCK_MONOTONIC), end = began + load->seconds, now;
    double cpu_began = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    do {
        if (descend(load, load->depth) < 0)
            return NULL;
        now = seconds_of(CLOCK_MONOTONIC);
    } while (now < end);
    load->seconds = now - began;
    load->cpu_seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
    for (uint64_t i = 0; i < load->n_kept; i++)
        free(load->kept[i]);
    free(load->kept);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    static struct load loads[64];
    int n = argc > 1 ? atoi(argv[1]) : 1;
    double ns = 0, cpu_ns = 0;
    if (n < 1 || n > 64)
        return 2;
    for (int i = 0; i < n; i++) {
        loads[i] = (struct load){
            .random = (uint64_t)i + 1,
            .seconds = argc > 2 ? atof(argv[2]) : 1,
            .depth = argc > 3 ? atoi(argv[3]) : 20,
            .n_kept = argc > 4 ? strtoull(argv[4], NULL, 10) : 256,
        };
        if (pthread_create(&threads[i], NULL, run, &loads[i]) != 0)
            return 1;
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        ns += loads[i].seconds * 1e9 / (double)loads[i].n / n;
        cpu_ns += loads[i].cpu_seconds * 1e9 / (double)loads[i].n / n;
    }
    printf("%.1f %.1f\n", cpu_ns, ns);
    return 0;
}
