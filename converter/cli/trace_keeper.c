// SPDX-License-Identifier: Apache-2.0
//
// The keeper is a fork of the process before its sandbox. It takes one thing from its parent: the
// number of a trace of the command line, and the name of a folder in the place. The end of the
// socket is the end of the keeper. Signals that end the parent are therefore ignored.
#include "converter/cli/trace_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/memory.h"
#include "converter/cli/trace_cache.h"

#define NAME_BYTES 32

struct request {
    uint32_t trace;        // its place in cache->traces
    char name[NAME_BYTES]; // of a folder in the place
};

// -- in the keeper --

static bool request_serve(const struct trace_cache *cache, const struct request *request)
{
    char name[NAME_BYTES + 1] = {0};
    memcpy(name, request->name, NAME_BYTES);
    return request->trace < cache->traces.n && working_folder_is_name(name, "new") &&
           trace_cache_keep(cache, &cache->traces.items[request->trace], cache->keeper.place.fd,
                            name);
}

static _Noreturn void keeper_run(struct trace_cache *cache, int fd)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ELEMENTS(ignored); i++)
        signal(ignored[i], SIG_IGN);
    for (int i = 0; i <= STDERR_FILENO; i++)
        close(i); // others wait for the end of these
    struct request request;
    ssize_t n;
    while ((n = recv(fd, &request, sizeof(request), 0)) > 0 || (n < 0 && errno == EINTR)) {
        bool is_kept = n == (ssize_t)sizeof(request) && request_serve(cache, &request);
        send(fd, &is_kept, sizeof(is_kept), MSG_NOSIGNAL);
    }
    working_folder_remove(&cache->keeper.place);
    _exit(0);
}

// -- in the process that converts --

void trace_keeper_start(struct trace_cache *cache)
{
    struct err err = {0};
    CLEANUP(freep) char *new = NULL;
    struct working_folder place;
    int ends[2];
    if (!cache->traces.n || cache->keeper.pid)
        return;
    if (asprintf(&new, "%s/new", cache->folder) < 0) {
        new = NULL;
        return;
    }
    if (working_folder_make(new, &err, &place) < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        working_folder_remove(&place);
        return;
    }
    cache->keeper = (struct trace_keeper){.place = place, .fd = ends[0], .pid = fork()};
    if (cache->keeper.pid == 0) {
        close_fd(ends[0]);
        keeper_run(cache, ends[1]);
    }
    close_fd(ends[1]);
    if (cache->keeper.pid > 0)
        return;
    working_folder_remove(&cache->keeper.place);
    close_fd(ends[0]);
    cache->keeper = (struct trace_keeper){0};
}

void trace_keeper_end(struct trace_keeper *keeper)
{
    if (!keeper->pid)
        return;
    close_fd(keeper->fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close_fd(keeper->place.fd);
    free(keeper->place.path);
    *keeper = (struct trace_keeper){0};
}

static bool messages_write(int folder, const struct strbuf *messages)
{
    CLEANUP(close_fdp)
    int fd = openat(folder, CACHE_MESSAGES, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && !messages->failed && !memory_was_refused() &&
           fd_write_all(fd, messages->text, messages->size) == 0;
}

static bool answer_wait(int fd)
{
    bool is_kept = false;
    while (recv(fd, &is_kept, sizeof(is_kept), 0) < 0 && errno == EINTR)
        ;
    return is_kept;
}

void trace_keeper_ask(const struct trace_cache *cache, const struct cached_trace *trace,
                      const struct strbuf *messages, struct working_folder *folder)
{
    struct request request = {0};
    const char *name = strrchr(folder->path, '/') + 1;
    while (request.trace < cache->traces.n &&
           !str_eq(cache->traces.items[request.trace].entry, trace->entry))
        request.trace++;
    if (strlen(name) > NAME_BYTES || !messages_write(folder->fd, messages))
        return;
    memcpy(request.name, name, strlen(name));
    if (send(cache->keeper.fd, &request, sizeof(request), MSG_NOSIGNAL) < 0 ||
        !answer_wait(cache->keeper.fd))
        return;
    free(STEAL(folder->path)); // the folder is no working folder any more
    folder->fd = close_fd(folder->fd);
}
