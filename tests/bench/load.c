// SPDX-License-Identifier: Apache-2.0
//
// The load that both recorders watch. It does a fixed amount of work, so that every run makes about
// the same number of events: two processes hand a byte to and fro (sched events), and every few
// rounds one of them maps, touches and unmaps some pages (kmem events). It prints nothing and
// allocates next to nothing.
//
// usage: bench_load ROUNDS ROUNDS_PER_SECOND (0: as fast as it goes)
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_PER_FAULT 8
#define FAULT_PAGES      16
#define NSEC_PER_SEC     1000000000L

static bool touch_pages(void)
{
    size_t size = FAULT_PAGES * (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    for (size_t i = 0; i < size; i += size / FAULT_PAGES)
        ((volatile char *)pages)[i] = 1;
    return munmap(pages, size) == 0;
}

static bool echo_bytes(int from, int to)
{
    char byte;
    while (read(from, &byte, 1) == 1) {
        if (write(to, &byte, 1) != 1)
            return false;
    }
    return true;
}

static void wait_until(const struct timespec *start, long nsec)
{
    struct timespec at = {start->tv_sec + nsec / NSEC_PER_SEC,
                          start->tv_nsec + nsec % NSEC_PER_SEC};
    if (at.tv_nsec >= NSEC_PER_SEC) {
        at.tv_sec++;
        at.tv_nsec -= NSEC_PER_SEC;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static bool play(int from, int to, long n_rounds, long rounds_per_second)
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    long batch = rounds_per_second / 100 > 0 ? rounds_per_second / 100 : 1;
    for (long i = 0; i < n_rounds; i++) {
        char byte = 0;
        if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
            return false;
        if (i % ROUNDS_PER_FAULT == 0 && !touch_pages())
            return false;
        if (rounds_per_second > 0 && i % batch == 0)
            wait_until(&start, (long)((double)i / (double)rounds_per_second * NSEC_PER_SEC));
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench_load ROUNDS ROUNDS_PER_SECOND\n");
        return 2;
    }
    long n_rounds = strtol(argv[1], NULL, 10), rounds_per_second = strtol(argv[2], NULL, 10);
    int there[2], back[2];
    if (pipe(there) < 0 || pipe(back) < 0)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        _exit(echo_bytes(there[0], back[1]) ? 0 : 1);
    }
    close(there[0]);
    close(back[1]);
    bool good = play(back[0], there[1], n_rounds, rounds_per_second);
    close(there[1]);
    int status;
    return waitpid(child, &status, 0) == child && status == 0 && good ? 0 : 1;
}
