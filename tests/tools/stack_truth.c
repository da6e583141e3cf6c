// SPDX-License-Identifier: Apache-2.0
//
// A program whose call stacks are known, for tests of samples:
//
//     stack_truth burn SECONDS      three functions use CPU time, and it prints how much each used
//     stack_truth touch PAGES       one function touches so many pages for the first time
//     stack_truth read FILE GROUP   joins a memory cgroup, and one function reads the file
//     stack_truth turn SECONDS PROGRAM   uses CPU time, gives up the rights of a set-uid program,
//                                        and executes the other program, which does the same
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_attribute) && __has_attribute(noclone)
#define KEPT __attribute__((noinline, noclone))
#else
#define KEPT __attribute__((noinline))
#endif

static volatile uint64_t sum;

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Three functions with equal code. The program measures the CPU time of each.
#define BURNER(name)                                                                               \
    KEPT static void name(long n)                                                                  \
    {                                                                                              \
        for (long i = 0; i < n; i++)                                                               \
            sum += (uint64_t)i * (uint64_t)i;                                                      \
    }

BURNER(burn_hot)
BURNER(burn_warm)
BURNER(burn_cool)

static int burn(double seconds)
{
    static void (*const burners[])(long) = {burn_hot, burn_warm, burn_cool};
    static const long rounds[] = {3000000, 1000000, 500000};
    double used[3] = {0}, begin = cpu_now(), now = begin;
    while (now - begin < seconds)
        for (int i = 0; i < 3; i++) {
            double before = now;
            burners[i](rounds[i]);
            now = cpu_now();
            used[i] += now - before;
        }
    printf("burn_hot %.6f\nburn_warm %.6f\nburn_cool %.6f\n", used[0], used[1], used[2]);
    return 0;
}

KEPT static void touch_pages(char *memory, size_t size)
{
    for (size_t i = 0; i < size; i += 4096)
        memory[i] = 1;
    sum += (uint64_t)memory[size - 1];
}

static int touch(size_t pages)
{
    size_t size = pages * 4096;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, size, MADV_NOHUGEPAGE);
    touch_pages(memory, size);
    return 0;
}

KEPT static long read_all(int fd)
{
    static char buffer[1 << 20];
    long total = 0;
    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;)
        total += n;
    return total;
}

static int read_in_group(const char *path, const char *group)
{
    char name[4096], text[32];
    snprintf(name, sizeof(name), "%s/cgroup.procs", group);
    int fd = open(name, O_WRONLY), n = snprintf(text, sizeof(text), "%d", (int)getpid());
    if (fd < 0 || write(fd, text, (size_t)n) != n) {
        perror(name);
        return 1;
    }
    close(fd);
    fd = open(path, O_RDONLY);
    if (fd < 0 || read_all(fd) == 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int turn(const char *own, const char *seconds, const char *other)
{
    double end = cpu_now() + atof(seconds);
    while (cpu_now() < end)
        burn_hot(100000);
    if (setresuid(getuid(), getuid(), getuid()) == 0)
        execl(other, other, "turn", seconds, own, (char *)NULL);
    perror(other);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "burn") == 0)
        return burn(atof(argv[2]));
    if (argc == 3 && strcmp(argv[1], "touch") == 0)
        return touch((size_t)atol(argv[2]));
    if (argc == 4 && strcmp(argv[1], "read") == 0)
        return read_in_group(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "turn") == 0)
        return turn(argv[0], argv[2], argv[3]);
    fprintf(stderr,
            "usage: stack_truth burn SECONDS | touch PAGES | read FILE GROUP | turn SECONDS "
            "PROGRAM\n");
    return 2;
}
