// SPDX-License-Identifier: Apache-2.0
//
// Two lists under one lock: jobs to do, and done jobs with a pending call of `done`. The thread
// signals the loop by an eventfd. It blocks all signals, so that the loop gets them. Its stack is
// small: jobs are a few system calls.
#include "producer/trace/disk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/thread.h"

#define STACK_BYTES ((size_t)256 << 10)

struct list {
    struct disk_job *first, **end;
};

struct disk {
    int event_fd;
    struct loop_io *io;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list todo, told; // `told`: done, with a pending call of `done`
    struct disk_job *at_work;
    bool ends;
};

static void push(struct list *list, struct disk_job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct disk_job *pop(struct list *list)
{
    struct disk_job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->end = &list->first;
    return job;
}

static void *run(void *userdata)
{
    struct disk *disk = userdata;
    uint64_t one = 1;
    pthread_mutex_lock(&disk->lock);
    for (;;) {
        struct disk_job *job = pop(&disk->todo);
        if (!job && disk->ends)
            break;
        if (!job) {
            pthread_cond_wait(&disk->changed, &disk->lock);
            continue;
        }
        disk->at_work = job;
        pthread_mutex_unlock(&disk->lock);
        job->work(job);
        pthread_mutex_lock(&disk->lock);
        disk->at_work = NULL;
        push(&disk->told, job);
        pthread_cond_broadcast(&disk->changed);
        (void)!write(disk->event_fd, &one, sizeof(one));
    }
    pthread_mutex_unlock(&disk->lock);
    return NULL;
}

static void tell(struct disk *disk)
{
    for (;;) {
        pthread_mutex_lock(&disk->lock);
        struct disk_job *job = pop(&disk->told);
        pthread_mutex_unlock(&disk->lock);
        if (!job)
            return;
        job->busy = false;
        if (job->done)
            job->done(job);
    }
}

static void event_ready(void *userdata)
{
    struct disk *disk = userdata;
    uint64_t n;
    (void)!read(disk->event_fd, &n, sizeof(n));
    tell(disk);
}

int disk_new(struct loop *loop, struct disk **ret)
{
    struct disk *disk = memory_calloc(1, sizeof(*disk));
    if (!disk)
        return -ENOMEM;
    disk->todo.end = &disk->todo.first;
    disk->told.end = &disk->told.first;
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->changed, NULL);
    disk->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = disk->event_fd < 0 ? -errno : 0;
    if (r == 0)
        r = loop_add_io(loop, disk->event_fd, EPOLLIN, event_ready, disk, &disk->io);
    if (r == 0)
        r = thread_start(&disk->thread, STACK_BYTES, run, disk);
    disk->has_thread = r == 0;
    if (r < 0) {
        disk_free(disk);
        return r;
    }
    *ret = disk;
    return 0;
}

struct disk *disk_free(struct disk *disk)
{
    if (!disk)
        return NULL;
    int saved = errno;
    if (disk->has_thread) {
        pthread_mutex_lock(&disk->lock);
        disk->ends = true;
        pthread_cond_broadcast(&disk->changed);
        pthread_mutex_unlock(&disk->lock);
        pthread_join(disk->thread, NULL);
        tell(disk);
    }
    loop_remove_io(disk->io);
    close_fd(disk->event_fd);
    pthread_cond_destroy(&disk->changed);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
    errno = saved;
    return NULL;
}

void disk_run(struct disk *disk, struct disk_job *job)
{
    job->busy = true;
    pthread_mutex_lock(&disk->lock);
    push(&disk->todo, job);
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->lock);
}

// Takes the job off the list of done jobs. Returns false if the job is not on the list yet.
static bool take_off(struct disk *disk, struct disk_job *job)
{
    for (struct disk_job **at = &disk->told.first; *at; at = &(*at)->next) {
        if (*at != job)
            continue;
        *at = job->next;
        if (!*at)
            disk->told.end = at;
        return true;
    }
    return false;
}

void disk_wait(struct disk *disk, struct disk_job *job)
{
    if (!job->busy)
        return;
    pthread_mutex_lock(&disk->lock);
    while (!take_off(disk, job))
        pthread_cond_wait(&disk->changed, &disk->lock);
    pthread_mutex_unlock(&disk->lock);
    job->busy = false;
}
