// SPDX-License-Identifier: Apache-2.0
//
// Reads pages of a mapped file in a pattern, and prints how many major faults that took:
//     bench_replay FILE PATTERN SEED ACCESSES
// Without read-ahead, whose size is the device's and would decide everything.
// Which pages are hot does not depend on the seed, only the order of accesses does. PATTERN:
//   zipf     a tenth of the pages gets most of the accesses, scattered in clusters of 8 pages
//   scan     four accesses in five go to 1/8 of the file; every fifth goes on with a scan of it all
//   phases   long phases take turns between two quarters of the file; a third, small part is always
//            in use
// For tests/bench/suggest.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLUSTER      8     // pages that are hot together
#define PHASE_LENGTH 30000 // accesses

static uint64_t random_state;

// splitmix64: successive values do not depend on each other, which a page made of two of them
// needs.
static uint64_t random_u64(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double random_unit(void)
{
    return (double)(random_u64() >> 11) / 9007199254740992.0;
}

static uint64_t random_below(uint64_t n)
{
    return random_u64() % n;
}

// Where cluster `i` of n lies: the same in each run.
static uint64_t scatter(uint64_t i, uint64_t n)
{
    uint64_t step = (n / 2 + n / 8) | 1;
    while (n % step == 0)
        step += 2;
    return i * step % n;
}

static uint64_t zipf_page(uint64_t n_pages)
{
    uint64_t n = n_pages / CLUSTER;
    uint64_t rank = (uint64_t)pow((double)n, random_unit()) - 1; // density 1 / rank
    return scatter(rank % n, n) * CLUSTER + random_below(CLUSTER);
}

static uint64_t scan_page(uint64_t n_pages, uint64_t i)
{
    uint64_t n = n_pages / CLUSTER;
    if (i % 5 == 4)
        return i / 5 % n_pages;
    return scatter(random_below(n / 8), n) * CLUSTER + random_below(CLUSTER);
}

static uint64_t phase_page(uint64_t n_pages, uint64_t i)
{
    uint64_t n = n_pages / CLUSTER, quarter = n / 4;
    if (i % 3 == 0) // always in use: 1/16
        return scatter(n - 1 - random_below(n / 16), n) * CLUSTER + random_below(CLUSTER);
    uint64_t first = i / PHASE_LENGTH % 2 * quarter;
    return scatter(first + random_below(quarter), n) * CLUSTER + random_below(CLUSTER);
}

int main(int argc, char **argv)
{
    struct stat st;
    int fd = argc == 5 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 2;
    uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t n_pages = (uint64_t)st.st_size / page_size, n = strtoull(argv[4], NULL, 10);
    char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED || !n_pages || madvise(bytes, (size_t)st.st_size, MADV_RANDOM) < 0)
        return 2;
    volatile const char *map = bytes;
    random_state = strtoull(argv[3], NULL, 10) << 32;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t page = strcmp(argv[2], "zipf") == 0   ? zipf_page(n_pages)
                        : strcmp(argv[2], "scan") == 0 ? scan_page(n_pages, i)
                                                       : phase_page(n_pages, i);
        (void)map[page * page_size];
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_majflt);
    return 0;
}
