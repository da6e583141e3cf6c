// SPDX-License-Identifier: Apache-2.0
//
// Allocates known amounts by every function that allocates, for tests of the heap profiler:
//
//     heap_kinds [THREADS [ROUNDS]]
//
// Each round of each thread calls each of the functions below once. test_heap_truth.py has the
// amounts that a function keeps, and that it allocates and frees. Functions that free what they
// allocate keep no memory, so the program can do as many rounds as an estimate needs.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <unistd.h>

#define KNOWN extern "C" __attribute__((noinline, visibility("default"))) void

namespace
{
thread_local void *volatile sink;

struct alignas(128) wide {
    char bytes[384];
};

void *through(void *p)
{
    sink = p;
    return sink;
}

struct rounds {
    unsigned n;
    int pipe[2]; // one thread allocates, another frees
};
} // namespace

KNOWN drop_malloc()
{
    free(through(malloc(33)));
}

KNOWN drop_calloc()
{
    free(through(calloc(7, 20)));
}

KNOWN drop_reallocarray()
{
    free(through(reallocarray(nullptr, 9, 30)));
}

KNOWN drop_aligned()
{
    free(through(aligned_alloc(64, 192)));
    free(through(memalign(32, 96)));
    void *p = nullptr;
    if (posix_memalign(&p, 256, 200) == 0)
        free(through(p));
}

KNOWN drop_pages()
{
    free(through(valloc(500)));
    free(through(pvalloc(700)));
}

KNOWN drop_strdup()
{
    free(through(strdup("forty characters and the zero after them")));
}

KNOWN drop_new()
{
    delete static_cast<int *>(through(new int[1]));
    delete[] static_cast<char *>(through(new char[81]));
    delete[] static_cast<char *>(through(new (std::nothrow) char[60]));
}

KNOWN drop_new_aligned()
{
    delete static_cast<wide *>(through(new wide));
}

KNOWN drop_grown()
{
    void *p = through(realloc(nullptr, 40));
    p = through(realloc(p, 120)); // grows
    p = through(realloc(p, 50));  // shrinks
    free(p);
}

KNOWN keep_shrunk()
{
    void *p = through(malloc(300));
    sink = realloc(p, 100);
}

KNOWN keep_new()
{
    sink = new char[70];
}

KNOWN hand_over(const struct rounds *rounds)
{
    void *p = malloc(150);
    if (write(rounds->pipe[1], &p, sizeof(p)) != sizeof(p))
        _exit(3);
}

static void *take(void *userdata)
{
    auto *rounds = static_cast<struct rounds *>(userdata);
    for (void *p; read(rounds->pipe[0], &p, sizeof(p)) == sizeof(p);)
        free(p);
    return nullptr;
}

extern "C" __attribute__((noinline)) void *run(void *userdata)
{
    auto *rounds = static_cast<struct rounds *>(userdata);
    for (unsigned i = 0; i < rounds->n; i++) {
        drop_malloc();
        drop_calloc();
        drop_reallocarray();
        drop_aligned();
        drop_pages();
        drop_strdup();
        drop_new();
        drop_new_aligned();
        drop_grown();
        if (i % 16 == 0) {
            keep_shrunk();
            keep_new();
            hand_over(rounds);
        }
    }
    return nullptr;
}

int main(int argc, char **argv)
{
    pthread_t threads[16], taker;
    int n = argc > 1 ? atoi(argv[1]) : 1;
    struct rounds rounds = {argc > 2 ? static_cast<unsigned>(atoi(argv[2])) : 1600U, {-1, -1}};
    if (n < 1 || n > 16 || pipe(rounds.pipe) != 0 ||
        pthread_create(&taker, nullptr, take, &rounds) != 0)
        return 2;
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], nullptr, run, &rounds) != 0)
            return 1;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], nullptr);
    close(rounds.pipe[1]);
    return pthread_join(taker, nullptr);
}
