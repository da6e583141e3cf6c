// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without a fuzzer: over files and directories of inputs, then over mutations of
// the inputs.
//
//     fuzz_NAME [--random N] [--seed S] [--seconds T] FILE|DIRECTORY...
//
// Mutation K depends only on the seed S, on K and on the inputs, so each mutation can be made
// again. The target runs in a child. The child notes in shared memory which input it runs next. If
// the child dies (by a signal, a sanitizer, or without an end after ten seconds of processor time
// or two minutes), the parent makes this input again and writes the input to fuzz-crash in the
// current directory.
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "common/vec.h"

#define INPUT_SIZE_MAX ((size_t)16 << 20) // of a file
#define MUTANT_MAX     ((size_t)256 << 10)
#define BUSY_SECONDS   10  // of processor time: a starved child is not a hang
#define HANG_SECONDS   120 // for a child that waits

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    char *path;    // owned
    uint8_t *data; // owned
    size_t size;
};

VEC_DEFINE(inputs, struct input);

struct options {
    uint64_t n_random;
    uint64_t seed;
    uint64_t seconds; // for the mutations; 0: no limit
};

static int input_load(struct inputs *inputs, const char *path)
{
    CLEANUP(fclosep) FILE *file = fopen(path, "rbe");
    if (!file)
        return -errno;
    struct input input = {.path = strdup(path), .data = malloc(INPUT_SIZE_MAX)};
    if (!input.path || !input.data)
        return -ENOMEM;
    input.size = fread(input.data, 1, INPUT_SIZE_MAX, file);
    if (input.size) {
        uint8_t *shrunk = realloc(input.data, input.size);
        input.data = shrunk ? shrunk : input.data;
    }
    return inputs_push(inputs, input);
}

static int compare_inputs(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->path, ((const struct input *)b)->path);
}

static int inputs_load(struct inputs *inputs, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return input_load(inputs, path);
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        CLEANUP(strbuf_done) struct strbuf below = {0};
        if (entry->d_name[0] == '.')
            continue;
        strbuf_addf(&below, "%s/%s", path, entry->d_name);
        r = below.failed ? -ENOMEM : inputs_load(inputs, below.text);
    }
    closedir(dir);
    return r;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static size_t random_below(uint64_t *state, size_t n)
{
    return n ? (size_t)(random_next(state) % n) : 0;
}

// Inserts `size` bytes of `from`, or noise if `from` is NULL, at `at`. Returns the new size of
// `data`.
static size_t insert(uint8_t *data, size_t n, size_t at, const uint8_t *from, size_t size,
                     uint64_t *state)
{
    if (size > MUTANT_MAX - n)
        size = MUTANT_MAX - n;
    memmove(data + at + size, data + at, n - at);
    for (size_t i = 0; i < size; i++)
        data[at + i] = from ? from[i] : (uint8_t)random_next(state);
    return n + size;
}

static void overwrite_number(uint8_t *data, size_t n, size_t at, uint64_t *state)
{
    static const uint64_t numbers[] = {0,          1,          0x7f,       0x80,
                                       0xff,       0x100,      0x7fff,     0x8000,
                                       0xffff,     0x10000,    0x7fffffff, 0x80000000,
                                       0xffffffff, UINT64_MAX, INT64_MAX,  0x8000000000000000};
    uint64_t number = numbers[random_below(state, ELEMENTS(numbers))];
    size_t width = (size_t)1 << random_below(state, 4);
    bool big_endian = random_next(state) & 1;
    for (size_t i = 0; i < width && at + i < n; i++)
        data[at + i] = (uint8_t)(number >> 8 * (big_endian ? width - 1 - i : i));
}

static size_t mutate_once(uint8_t *data, size_t n, const struct inputs *inputs, uint64_t *state)
{
    size_t at = random_below(state, n), length = 1 + random_below(state, n - at < 64 ? n - at : 64);
    const struct input *other = &inputs->items[random_below(state, inputs->n)];
    uint8_t piece[64];
    switch (random_below(state, n ? 9 : 1)) {
    case 0:
        return insert(data, n, at, NULL, 1 + random_below(state, 8), state);
    case 1:
        data[at] ^= (uint8_t)(1 << random_below(state, 8));
        return n;
    case 2:
        data[at] = (uint8_t)random_next(state);
        return n;
    case 3:
        overwrite_number(data, n, at, state);
        return n;
    case 4: // cut out
        memmove(data + at, data + at + length, n - at - length);
        return n - length;
    case 5: // cut off
        return random_below(state, 4) ? n : at;
    case 6: // repeat
        memcpy(piece, data + at, length);
        return insert(data, n, at, piece, length, state);
    case 7: // move
        memcpy(piece, data + at, length);
        memmove(data + at, data + at + length, n - at - length);
        return insert(data, n - length, random_below(state, n - length + 1), piece, length, state);
    default: { // a piece of another input
        size_t from = random_below(state, other->size);
        size_t size = 1 + random_below(state, 512);
        if (size > other->size - from)
            size = other->size - from;
        return insert(data, n, at, other->data + from, size, state);
    }
    }
}

// Makes input number `run` in `mutant` (of MUTANT_MAX bytes): the inputs themselves come first.
static const uint8_t *input_of_run(const struct inputs *inputs, const struct options *options,
                                   uint64_t run, uint8_t *mutant, size_t *ret_size)
{
    if (run < inputs->n) {
        *ret_size = inputs->items[run].size;
        return inputs->items[run].data;
    }
    uint64_t state = options->seed ^ run * 0xd1342543de82ef95ULL;
    const struct input *base = &inputs->items[random_below(&state, inputs->n)];
    size_t n = base->size < MUTANT_MAX ? base->size : MUTANT_MAX;
    memcpy(mutant, base->data, n);
    for (size_t i = 1 + random_below(&state, 6); i; i--)
        n = mutate_once(mutant, n, inputs, &state);
    *ret_size = n;
    return mutant;
}

// Runs the target on a copy of exactly `size` bytes, so that sanitizers notice a read past the end.
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        exit(2);
    memcpy(copy, data, size);
    static const struct itimerval busy = {.it_value.tv_sec = BUSY_SECONDS}, off;
    setitimer(ITIMER_PROF, &busy, NULL);
    alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(copy, size);
    alarm(0);
    setitimer(ITIMER_PROF, &off, NULL);
    free(copy);
}

static void run_all(const struct inputs *inputs, const struct options *options,
                    volatile uint64_t *run, uint8_t *mutant)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (*run = 0; *run < inputs->n + options->n_random; ++*run) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (options->seconds && *run >= inputs->n &&
            (uint64_t)(now.tv_sec - start.tv_sec) >= options->seconds)
            return;
        size_t size;
        const uint8_t *data = input_of_run(inputs, options, *run, mutant, &size);
        run_one(data, size);
    }
}

static int report_crash(const struct inputs *inputs, const struct options *options, uint64_t run,
                        int status, uint8_t *mutant)
{
    size_t size;
    const uint8_t *data = input_of_run(inputs, options, run, mutant, &size);
    CLEANUP(fclosep) FILE *file = fopen("fuzz-crash", "wbe");
    bool saved = file && fwrite(data, 1, size, file) == size;
    fprintf(stderr, "run %llu (%s), seed %llu: %s %d; the input is %s\n", (unsigned long long)run,
            run < inputs->n ? inputs->items[run].path : "a mutation",
            (unsigned long long)options->seed, WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            saved ? "in ./fuzz-crash" : "lost");
    return 1;
}

static int run_in_child(const struct inputs *inputs, const struct options *options)
{
    volatile uint64_t *run =
        mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t *mutant = malloc(MUTANT_MAX);
    pid_t pid = run == MAP_FAILED || !mutant ? -1 : fork();
    int status = 0;
    if (pid < 0) {
        perror("fuzz driver");
        return 2;
    }
    if (pid == 0) {
        run_all(inputs, options, run, mutant);
        free(mutant);
        exit(0); // so that a leak checker runs
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int r = 0;
    if (status)
        r = report_crash(inputs, options, *run, status, mutant);
    else
        printf("%zu inputs, %llu mutations\n", inputs->n, (unsigned long long)*run - inputs->n);
    free(mutant);
    return r;
}

static int parse_option(const char *name, const char *value, struct options *options)
{
    uint64_t *to = str_eq(name, "--random")    ? &options->n_random
                   : str_eq(name, "--seed")    ? &options->seed
                   : str_eq(name, "--seconds") ? &options->seconds
                                               : NULL;
    return to && value ? str_parse_u64(value, to) : -EINVAL;
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1};
    struct inputs inputs = {0};
    for (int i = 1; i < argc; i++) {
        bool is_option = strncmp(argv[i], "--", 2) == 0;
        int r = is_option ? parse_option(argv[i], argv[i + 1], &options)
                          : inputs_load(&inputs, argv[i]);
        if (r < 0) {
            fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
            return 2;
        }
        i += is_option;
    }
    if (!inputs.n) {
        fprintf(stderr, "usage: %s [--random N] [--seed S] [--seconds T] FILE|DIRECTORY...\n",
                argv[0]);
        return 2;
    }
    qsort(inputs.items, inputs.n, sizeof(inputs.items[0]), compare_inputs);
    int r = run_in_child(&inputs, &options);
    vec_foreach(&inputs, input) {
        free(input->path);
        free(input->data);
    }
    inputs_done(&inputs);
    return r;
}
