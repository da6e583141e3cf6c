// SPDX-License-Identifier: Apache-2.0
//
// Allocates known amounts in functions of known names, for tests of the heap profiler:
//
//     heap_truth [THREADS [ROUNDS]]
//
// In each round of each thread, keep_small() keeps 100 bytes, drop_small() allocates and frees 300
// bytes, and grow() keeps 160 bytes, which realloc() makes of 80. In every thousandth round,
// keep_large() keeps 200,000 bytes.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static void *volatile sink;

NOINLINE void keep_small(void);
NOINLINE void drop_small(void);
NOINLINE void keep_large(void);
NOINLINE void grow(void);
NOINLINE void one_round(unsigned i);

void keep_small(void)
{
    sink = malloc(100);
}

void drop_small(void)
{
    void *p = calloc(3, 100);
    sink = p;
    free(p);
}

void keep_large(void)
{
    void *p;
    if (posix_memalign(&p, 64, 200000) == 0)
        sink = p;
}

void grow(void)
{
    void *p = malloc(80);
    sink = p;
    sink = realloc(p, 160);
}

void one_round(unsigned i)
{
    keep_small();
    drop_small();
    grow();
    if (i % 1000 == 0)
        keep_large();
    sink = NULL;
}

static void *run(void *rounds)
{
    for (unsigned i = 0; i < *(const unsigned *)rounds; i++)
        one_round(i);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int n = argc > 1 ? atoi(argv[1]) : 1;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 50000;
    if (n < 1 || n > 64)
        return 2;
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, run, &rounds) != 0)
            return 1;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
