// SPDX-License-Identifier: Apache-2.0
//
// The start of a program can take seconds on a machine that is short of memory, and posix_spawn()
// blocks its caller until the program runs. Therefore a thread starts the child and reads its
// output. Each trace has its own thread. The thread reports its end to the loop by an eventfd, and
// the loop logs the lines.
//
// Invariant: the thread touches only its own job, and nothing after it has reported its end.
#include "producer/cli/verdict_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/thread.h"
#include "producer/cli/verdict_child.h"

#define TIMEOUT    (60 * NSEC_PER_SEC)
#define STACK_SIZE ((size_t)128 << 10)

struct job {
    int fd;     // owned; -1: none
    char *name; // owned; last part of the trace's path
    int result;
    struct strbuf lines;
    struct err err;
};

struct verdict_queue {
    struct loop *loop;     // borrowed
    const struct log *log; // borrowed
    struct job jobs[VERDICT_QUEUE_MAX];
    size_t n; // jobs[0] is in work while `runs`
    bool runs;
    pthread_t thread;
    int ended_fd, cancel_fd; // owned eventfds
    struct loop_io *ended_io;
};

static void job_done(struct job *job)
{
    close_fd(job->fd);
    free(job->name);
    strbuf_done(&job->lines);
    *job = (struct job){.fd = -1};
}

static void tell(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof(one));
    (void)n;
}

static void *job_run(void *userdata)
{
    struct verdict_queue *queue = userdata;
    struct job *job = &queue->jobs[0];
    struct verdict_request request = {
        .fd = job->fd, .timeout = TIMEOUT, .cancel_fd = queue->cancel_fd, .stands_back = true};
    job->result = verdict_of_fd(&request, &job->lines, &job->err);
    tell(queue->ended_fd);
    return NULL;
}

static void job_log(const struct verdict_queue *queue, struct job *job)
{
    if (job->result == -ENOENT || job->result == -ENODATA)
        log_debug(queue->log, "%s: %s", job->name, job->err.text);
    else if (job->result < 0)
        log_info(queue->log, "%s: %s%s%s%s", job->name, job->err.text, job->err.hint[0] ? " (" : "",
                 job->err.hint, job->err.hint[0] ? ")" : "");
    char *rest = job->result == 0 ? job->lines.text : NULL, *line;
    while (rest && (line = strsep(&rest, "\n")))
        if (*line)
            log_info(queue->log, "%s: %s", job->name, line);
}

static void first_remove(struct verdict_queue *queue)
{
    job_done(&queue->jobs[0]);
    memmove(queue->jobs, queue->jobs + 1, --queue->n * sizeof(struct job));
}

static void next_start(struct verdict_queue *queue)
{
    while (queue->n > 0 && !queue->runs) {
        int r = thread_start(&queue->thread, STACK_SIZE, job_run, queue);
        queue->runs = r == 0;
        if (r == 0)
            return;
        log_info(queue->log, "%s: no verdict: %s", queue->jobs[0].name, strerror(-r));
        first_remove(queue);
    }
}

static void thread_end(struct verdict_queue *queue)
{
    pthread_join(queue->thread, NULL);
    queue->runs = false;
}

static void job_ended(void *userdata)
{
    struct verdict_queue *queue = userdata;
    uint64_t n;
    if (read(queue->ended_fd, &n, sizeof(n)) != (ssize_t)sizeof(n) || !queue->runs)
        return;
    thread_end(queue);
    job_log(queue, &queue->jobs[0]);
    first_remove(queue);
    next_start(queue);
}

int verdict_queue_new(struct loop *loop, const struct log *log, struct verdict_queue **ret)
{
    struct verdict_queue *queue = calloc(1, sizeof(*queue));
    if (!queue)
        return -ENOMEM;
    queue->loop = loop;
    queue->log = log;
    queue->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    queue->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = queue->ended_fd < 0 || queue->cancel_fd < 0 ? -errno : 0;
    if (r == 0)
        r = loop_add_io(loop, queue->ended_fd, EPOLLIN, job_ended, queue, &queue->ended_io);
    if (r < 0) {
        verdict_queue_free(queue);
        return r;
    }
    *ret = queue;
    return 0;
}

void verdict_queue_add(struct verdict_queue *queue, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct job job = {.fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC),
                      .name = strdup(name)};
    if (job.fd < 0 || !job.name || queue->n == VERDICT_QUEUE_MAX) {
        log_info(queue->log, "%s: no verdict: %s", name,
                 queue->n == VERDICT_QUEUE_MAX ? "too many traces at once" : "cannot be read");
        job_done(&job);
        return;
    }
    queue->jobs[queue->n++] = job;
    next_start(queue);
}

struct verdict_queue *verdict_queue_free(struct verdict_queue *queue)
{
    if (!queue)
        return NULL;
    if (queue->runs) {
        tell(queue->cancel_fd);
        thread_end(queue);
    }
    if (queue->ended_io)
        loop_remove_io(queue->ended_io);
    for (size_t i = 0; i < queue->n; i++)
        job_done(&queue->jobs[i]);
    close_fd(queue->ended_fd);
    close_fd(queue->cancel_fd);
    free(queue);
    return NULL;
}
