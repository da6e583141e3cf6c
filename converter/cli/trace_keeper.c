// SPDX-License-Identifier: Apache-2.0
//
// The keeper is forked from the process before the process enters its sandbox. The keeper receives
// only requests from its parent: the number of a trace of the command line, and the name of a
// folder in the place. The keeper ends when its parent closes the socket, and therefore ignores
// signals that end the parent.
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

#define NAME_BYTES 32

struct request {
    uint32_t trace;        // its number
    char name[NAME_BYTES]; // of a folder in the place
};

// -- in the keeper --

static bool request_serve(const struct trace_keeper *keeper, const struct request *request,
                          trace_keep_fn keep, void *userdata)
{
    char name[NAME_BYTES + 1] = {0};
    memcpy(name, request->name, NAME_BYTES);
    return working_folder_is_name(name, "new") &&
           keep(userdata, request->trace, keeper->place.fd, name);
}

static _Noreturn void keeper_run(struct trace_keeper *keeper, int fd, trace_keep_fn keep,
                                 void *userdata)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ELEMENTS(ignored); i++)
        signal(ignored[i], SIG_IGN);
    for (int i = 0; i <= STDERR_FILENO; i++)
        close(i); // other programs may wait for the end of these files
    struct request request;
    ssize_t n;
    while ((n = recv(fd, &request, sizeof(request), 0)) > 0 || (n < 0 && errno == EINTR)) {
        bool is_kept =
            n == (ssize_t)sizeof(request) && request_serve(keeper, &request, keep, userdata);
        send(fd, &is_kept, sizeof(is_kept), MSG_NOSIGNAL);
    }
    working_folder_remove(&keeper->place);
    _exit(0);
}

// -- in the process that converts --

void trace_keeper_start(struct trace_keeper *keeper, const char *folder, trace_keep_fn keep,
                        void *userdata)
{
    struct err err = {0};
    CLEANUP(freep) char *new = NULL;
    struct working_folder place;
    int ends[2];
    if (asprintf(&new, "%s/new", folder) < 0) {
        new = NULL;
        return;
    }
    if (working_folder_make(new, &err, &place) < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        working_folder_remove(&place);
        return;
    }
    *keeper = (struct trace_keeper){.place = place, .fd = ends[0], .pid = fork()};
    if (keeper->pid == 0) {
        close_fd(ends[0]);
        keeper_run(keeper, ends[1], keep, userdata);
    }
    close_fd(ends[1]);
    if (keeper->pid > 0)
        return;
    working_folder_remove(&keeper->place);
    close_fd(ends[0]);
    *keeper = (struct trace_keeper){0};
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

void trace_keeper_ask(const struct trace_keeper *keeper, uint32_t trace,
                      const struct strbuf *messages, struct working_folder *folder)
{
    struct request request = {.trace = trace};
    const char *name = strrchr(folder->path, '/') + 1;
    if (strlen(name) > NAME_BYTES || !messages_write(folder->fd, messages))
        return;
    memcpy(request.name, name, strlen(name));
    if (send(keeper->fd, &request, sizeof(request), MSG_NOSIGNAL) < 0 || !answer_wait(keeper->fd))
        return;
    free(STEAL(folder->path)); // the folder is not a working folder any more
    folder->fd = close_fd(folder->fd);
}
