// SPDX-License-Identifier: Apache-2.0
//
// One reader, a thread with one job at a time, serves all callers. A reader that is late frees
// itself after its job. The next caller starts another reader.
//
// A thread that can run is late later: it computes, or the machine has no processor for it.
#include "producer/foreign/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/thread.h"
#include "producer/foreign/payer.h"

#define STACK_BYTES  ((size_t)128 << 10)
#define WAIT_MAX     (100 * NSEC_PER_MSEC) // of one call
#define WAIT_SHARE   10                    // all callers wait a tenth of the time
#define CREDIT_MAX   NSEC_PER_SEC          // that they have not waited before
#define WAIT_MIN     (5 * NSEC_PER_MSEC)   // even when this share is used up
#define QUEUED_MAX   (500 * NSEC_PER_MSEC) // for a thread that computes or waits for a processor
#define QUEUED_CHECK (20 * NSEC_PER_MSEC)  // while it waits
#define CMDLINE_MAX  4096

struct reader {
    process_call_fn call; // NULL: the job is to open or read a file
    alignas(max_align_t) char argument[PROCESS_CALL_BYTES];
    char path[256]; // to open; "": read `fd`
    int flags, fd;  // `fd` is owned by the caller, or by a late reader
    size_t size;    // to read; 0: only open
    ssize_t result; // bytes, or a negative errno
    bool has_job, is_late, ends;
    pthread_t thread;
    atomic_bool is_done; // before the thread has the lock again
    pid_t tid;
    uint64_t payer; // of a late reader
    char bytes[PROCESS_FILE_PIECE];
};

static struct {
    pid_t pid; // of the process that has the reader: a child after fork has no threads
    pthread_mutex_t lock;
    pthread_cond_t changed; // CLOCK_MONOTONIC
    struct reader *reader;  // NULL: none yet
    nsec_t credit, at;      // time that callers may wait, as of `at`
    struct reader *late[PROCESS_FILE_LATE_ALL];
    size_t n_late;
} pool;

static bool may_wait;

static void job_do(struct reader *reader)
{
    if (reader->call) {
        reader->result = reader->call(reader->argument, reader->bytes, reader->size);
        reader->fd = reader->size ? -1 : (int)reader->result;
        return;
    }
    if (reader->path[0])
        reader->fd = open(reader->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | reader->flags);
    reader->result = reader->fd < 0 ? -errno : 0;
    if (reader->fd < 0 || !reader->size)
        return;
    do
        reader->result = read(reader->fd, reader->bytes, reader->size);
    while (reader->result < 0 && errno == EINTR);
    if (reader->result < 0)
        reader->result = -errno;
}

static void *run(void *userdata)
{
    struct reader *reader = userdata;
    pthread_mutex_lock(&pool.lock);
    reader->tid = gettid();
    while (!reader->is_late && !reader->ends) {
        if (!reader->has_job) {
            pthread_cond_wait(&pool.changed, &pool.lock);
            continue;
        }
        pthread_mutex_unlock(&pool.lock);
        job_do(reader);
        atomic_store(&reader->is_done, true);
        pthread_mutex_lock(&pool.lock);
        reader->has_job = false;
        pthread_cond_broadcast(&pool.changed);
    }
    bool is_late = reader->is_late;
    for (size_t i = 0; is_late && i < pool.n_late; i++)
        if (pool.late[i] == reader)
            pool.late[i--] = pool.late[--pool.n_late];
    pthread_mutex_unlock(&pool.lock);
    if (is_late) {
        close_fd(reader->fd);
        free(reader);
    }
    return NULL;
}

// A child after fork() has the memory of its parent's reader, and not the thread.
static void pool_begin(void)
{
    if (pool.pid == getpid())
        return;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pool.pid = getpid();
    pool.reader = NULL;
    pool.n_late = 0;
}

static int reader_get(struct reader **ret)
{
    if (!pool.reader) {
        struct reader *reader = memory_calloc(1, sizeof(*reader));
        int r = reader ? thread_start(&reader->thread, STACK_BYTES, run, reader) : -ENOMEM;
        if (r < 0) {
            free(reader);
            return r;
        }
        pool.reader = reader;
    }
    *ret = pool.reader;
    return 0;
}

static bool is_refused(const char *proc, int32_t pid)
{
    uint64_t payer = pool.n_late > 0 ? foreign_payer_of_uid(proc, pid) : 0;
    size_t n = 0;
    for (size_t i = 0; i < pool.n_late; i++)
        n += pool.late[i]->payer == payer;
    return pool.n_late == PROCESS_FILE_LATE_ALL || (payer && n >= PROCESS_FILE_LATE_EACH);
}

static bool is_queued(pid_t tid)
{
    char text[256];
    struct span stat = text_file_span(text, sizeof(text), "/proc", "/self/task/%d/stat", (int)tid);
    const char *name_end = span_size(stat) ? strrchr(text, ')') : NULL;
    return !name_end || name_end[1] != ' ' || name_end[2] == 'R';
}

// Waits for the end of the job. Returns false if the reader is late.
static bool job_wait(struct reader *reader)
{
    nsec_t begun = nsec_now(CLOCK_MONOTONIC), now = begun;
    nsec_t earned = pool.credit + (now - pool.at) / WAIT_SHARE;
    pool.credit = earned < CREDIT_MAX ? earned : CREDIT_MAX;
    nsec_t wait = pool.credit < WAIT_MAX ? pool.credit : WAIT_MAX;
    for (nsec_t due = now + (wait > WAIT_MIN ? wait : WAIT_MIN); reader->has_job;) {
        struct timespec time = {due / NSEC_PER_SEC, due % NSEC_PER_SEC};
        int r = pthread_cond_timedwait(&pool.changed, &pool.lock, &time);
        now = nsec_now(CLOCK_MONOTONIC);
        if (r != ETIMEDOUT || !reader->has_job)
            continue;
        bool is_blocked = reader->tid && !is_queued(reader->tid);
        if ((is_blocked || now - begun > QUEUED_MAX) && !atomic_load(&reader->is_done))
            break;
        due = now + QUEUED_CHECK;
    }
    pool.credit = now - begun < pool.credit ? pool.credit - (now - begun) : 0;
    pool.at = now;
    return !reader->has_job;
}

// `path` is opened, unless it is NULL; then `size` bytes are read, unless `size` is 0. Or `call` is
// called, unless it is NULL.
struct job {
    const char *proc, *path;
    int32_t pid;
    int flags;
    process_call_fn call;
    const void *argument;
    size_t argument_size;
    char *buffer;
    size_t size; // of the buffer
};

static void job_give(const struct job *job, struct reader *reader, int fd)
{
    snprintf(reader->path, sizeof(reader->path), "%s", job->path ? job->path : "");
    reader->call = job->call;
    if (job->call)
        memcpy(reader->argument, job->argument, job->argument_size);
    reader->flags = job->flags;
    reader->fd = job->path || job->call ? -1 : fd;
    reader->size = job->size < PROCESS_FILE_PIECE ? job->size : PROCESS_FILE_PIECE;
}

static ssize_t job_take(const struct job *job, const struct reader *reader, int *fd)
{
    *fd = reader->fd;
    if (job->size && reader->result > 0)
        memcpy(job->buffer, reader->bytes, (size_t)reader->result);
    return reader->result;
}

// *fd is the file, which stays open, or -1: not opened, or left to a late reader.
static ssize_t job_run(const struct job *job, int *fd)
{
    struct reader *reader;
    if (is_refused(job->proc, job->pid))
        return -EAGAIN;
    int r = reader_get(&reader);
    if (r < 0)
        return r;
    job_give(job, reader, *fd);
    reader->has_job = true;
    atomic_store(&reader->is_done, false);
    pthread_cond_broadcast(&pool.changed);
    if (job_wait(reader))
        return job_take(job, reader, fd);
    *fd = -1;
    reader->payer = foreign_payer_of_uid(job->proc, job->pid);
    reader->is_late = true;
    pthread_detach(reader->thread);
    pool.late[pool.n_late++] = STEAL(pool.reader);
    return -ETIMEDOUT;
}

static ssize_t job_call(const struct job *job, int *fd)
{
    static struct reader here;
    if (may_wait) {
        job_give(job, &here, *fd);
        job_do(&here);
        return job_take(job, &here, fd);
    }
    pool_begin();
    pthread_mutex_lock(&pool.lock);
    ssize_t r = job_run(job, fd);
    pthread_mutex_unlock(&pool.lock);
    return r;
}

void process_files_end(void)
{
    if (pool.pid != getpid() || !pool.reader)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.reader->ends = true;
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
    pthread_join(pool.reader->thread, NULL);
    free(STEAL(pool.reader));
}

void process_files_may_wait(void)
{
    may_wait = true;
}

static ssize_t open_and_read(const char *proc, int32_t pid, const char *name, int flags, int *fd,
                             char *buffer, size_t size)
{
    char path[sizeof((struct reader *)0)->path];
    int n = snprintf(path, sizeof(path), "%s/%d/%s", proc, (int)pid, name);
    const struct job job = {
        .proc = proc, .path = path, .pid = pid, .flags = flags, .buffer = buffer, .size = size};
    *fd = -1;
    return n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : job_call(&job, fd);
}

int process_call(const char *proc, int32_t pid, process_call_fn call, const void *argument,
                 size_t argument_size, char *buffer, size_t size)
{
    const struct job job = {.proc = proc,
                            .pid = pid,
                            .call = call,
                            .argument = argument,
                            .argument_size = argument_size,
                            .buffer = buffer,
                            .size = size};
    int fd = -1;
    return argument_size > PROCESS_CALL_BYTES ? -E2BIG : (int)job_call(&job, &fd);
}

int process_file_open(struct process_file *ret, const char *proc, int32_t pid, const char *name,
                      int flags)
{
    *ret = (struct process_file){.proc = proc, .pid = pid, .fd = -1};
    return (int)open_and_read(proc, pid, name, flags, &ret->fd, NULL, 0);
}

ssize_t process_file_read(struct process_file *file, char *buffer, size_t size)
{
    const struct job job = {.proc = file->proc, .pid = file->pid, .buffer = buffer, .size = size};
    if (file->fd < 0)
        return -EBADF;
    return size ? job_call(&job, &file->fd) : 0;
}

static ssize_t read_maps(void *userdata, char *buffer, size_t size)
{
    return process_file_read(userdata, buffer, size);
}

int process_file_open_maps(struct process_file *file, struct line_reader *reader, const char *proc,
                           int32_t pid)
{
    line_reader_begin(reader, read_maps, file);
    return process_file_open(file, proc, pid, "maps", 0);
}

void process_file_close(struct process_file *file)
{
    file->fd = close_fd(file->fd);
}

ssize_t process_file_text(char *buffer, size_t size, const char *proc, int32_t pid,
                          const char *name)
{
    int fd CLEANUP(close_fdp) = -1;
    ssize_t n = open_and_read(proc, pid, name, 0, &fd, buffer, size - 1);
    buffer[n > 0 ? n : 0] = '\0';
    return n;
}

struct span process_file_span(char *buffer, size_t size, const char *proc, int32_t pid,
                              const char *name)
{
    ssize_t n = process_file_text(buffer, size, proc, pid, name);
    return span_over(buffer, n > 0 ? (size_t)n : 0);
}

const char *process_file_strerror(ssize_t error)
{
    return process_file_is_late(error) ? "it does not release the locks of its memory"
                                       : strerror((int)-error);
}

int process_life_in_time(const char *proc, int32_t pid, struct process_life *ret)
{
    char text[1024];
    ssize_t n = process_file_text(text, sizeof(text), proc, pid, "stat");
    if (n < 0)
        return (int)n;
    return process_life_parse(text, ret) ? 0 : -ESRCH;
}

const char *process_lacks_program(const char *proc, uint64_t pid)
{
    char text[16];
    struct process_life life;
    int r = pid > INT32_MAX ? -ESRCH : process_life_in_time(proc, (int32_t)pid, &life);
    if (process_file_is_late(r))
        return NULL;
    if (r < 0 || life.ended)
        return "there is no such process";
    ssize_t n = process_file_text(text, sizeof(text), proc, (int32_t)pid, "cmdline");
    return n == 0 || n == -ENOENT || n == -ESRCH
               ? "it has no command line, like a thread of the kernel"
               : NULL;
}

int process_is_called(const char *proc, int32_t pid, char *const *patterns, size_t n)
{
    char text[CMDLINE_MAX];
    ssize_t size = n > 0 ? process_file_text(text, sizeof(text), proc, pid, "cmdline") : 0;
    if (n > 0 && size <= 0)
        return size < 0 ? (int)size : -ENODATA;
    const char *slash = n > 0 ? strrchr(text, '/') : NULL;
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], text, 0) == 0 ||
            (slash && fnmatch(patterns[i], slash + 1, 0) == 0))
            return 1;
    return 0;
}
