// SPDX-License-Identifier: Apache-2.0
//
// Makes one request for memory fail, for tests of what the programs do then (LD_PRELOAD).
//
//     MMTRACE_FAULTS=FILE:PROGRAM:N    the request number N (from 1) of PROGRAM fails
//     MMTRACE_FAULTS=FILE:PROGRAM:N+   and so does each later one
//     MMTRACE_FAULTS=FILE:PROGRAM:0    nothing fails; FILE gets a hash of each request's stack
//
// A request is a call of malloc, calloc, realloc, posix_memalign and their relatives, mmap, or
// pthread_create. Calls of the C library itself (strdup, fopen) and of other libraries count, too.
// FILE holds a struct report, which the processes of PROGRAM (the name of its executable, children
// that it forks included) share, so that the processes count together, and the counts outlive the
// processes. The report has the stack of the request that failed first, as objects and offsets.
// FILE limits the number of hashes by its size. Within a run, equal stacks have equal hashes. A
// hash is odd if SQLite is in the stack: SQLite requests memory in thousands of places.
//
// This code does not allocate, and opens no file after the start: the program may enter a sandbox.
#undef _FILE_OFFSET_BITS // mmap and mmap64 are two names here
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define N_FRAMES   24
#define FRAME_SIZE 160

struct report {
    _Atomic uint64_t n_requests;
    _Atomic uint64_t n_failed;
    char frames[N_FRAMES][FRAME_SIZE];
    uint32_t hashes[];
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct report *report;
static uint64_t n_hashes; // the number of hashes that the report has room for
static uintptr_t sqlite_start, sqlite_end;
static uint64_t failing; // number of the request; 0: none
static bool later_ones_too;
static _Thread_local bool inside;
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static void *map_shared(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    void *map = MAP_FAILED;
    if (size >= (off_t)sizeof(struct report)) {
        map = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        n_hashes = ((uint64_t)size - sizeof(struct report)) / sizeof(uint32_t);
    }
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static int object_note(struct dl_phdr_info *info, size_t size, void *userdata)
{
    (void)size, (void)userdata;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libsqlite3"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        sqlite_start = !sqlite_start || begin < sqlite_start ? begin : sqlite_start;
        sqlite_end = begin + segment->p_memsz > sqlite_end ? begin + segment->p_memsz : sqlite_end;
    }
    return 1;
}

__attribute__((constructor)) static void start(void)
{
    const char *setting = getenv("MMTRACE_FAULTS");
    char path[256], program[64], number[32];
    *(void **)&real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    if (!setting || sscanf(setting, "%255[^:]:%63[^:]:%31s", path, program, number) != 3 ||
        strcmp(program, program_invocation_short_name) != 0)
        return;
    void *frames[2];
    backtrace(frames, 2); // loads the unwinder now
    char *end;
    failing = strtoull(number, &end, 10);
    later_ones_too = *end == '+';
    dl_iterate_phdr(object_note, NULL);
    report = map_shared(path);
}

static void note_stack(void)
{
    void *frames[N_FRAMES];
    int n = backtrace(frames, N_FRAMES);
    for (int i = 0; i < n; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || !info.dli_fname)
            continue;
        snprintf(report->frames[i], FRAME_SIZE, "%s+0x%lx", info.dli_fname,
                 (unsigned long)((uintptr_t)frames[i] - (uintptr_t)info.dli_fbase - 1));
    }
}

static uint32_t stack_hash(void)
{
    void *frames[N_FRAMES];
    int n = backtrace(frames, N_FRAMES);
    uint64_t hash = 0xcbf29ce484222325;
    bool sqlite = false;
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15;
        sqlite |= (uintptr_t)frames[i] >= sqlite_start && (uintptr_t)frames[i] < sqlite_end;
    }
    return (uint32_t)(hash >> 32 & ~1ULL) | sqlite;
}

static bool fails(void)
{
    if (!report || inside)
        return false;
    uint64_t n = atomic_fetch_add(&report->n_requests, 1) + 1;
    inside = true;
    if (!failing && n <= n_hashes)
        report->hashes[n - 1] = stack_hash();
    inside = false;
    if (!failing || (later_ones_too ? n < failing : n != failing))
        return false;
    inside = true;
    if (atomic_fetch_add(&report->n_failed, 1) == 0)
        note_stack();
    inside = false;
    errno = ENOMEM;
    return true;
}

EXPORT void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    return (size || !old) && fails() ? NULL : __libc_realloc(old, size);
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
    void *memory = memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *ret = memory;
    return 0;
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fails())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, size, protection, flags, fd, offset);
}

EXPORT int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fails() ? EAGAIN : real_pthread_create(ret, attributes, run, argument);
}
