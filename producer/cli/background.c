// SPDX-License-Identifier: Apache-2.0
//
// One fork is enough: the new process has a new session and never opens a terminal. The old process
// stays until the report, so that `mmtrace record -d` fails visibly if the file or a data source is
// not available. A new process that dies silently closes the pipe, which also counts as a failure.
#include "producer/cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/cli/cli.h"

#define WAIT_MS 30000

static void replace_by_null(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, fd);
        close_fd(null);
    }
}

static int wait_for_report(int fd, struct err *err)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int r;
    do {
        r = poll(&poll_fd, 1, WAIT_MS);
    } while (r < 0 && errno == EINTR);
    unsigned char report = BACKGROUND_FAILED;
    if (r == 0)
        err_set(err, -ETIMEDOUT, "no data source reported its start within %d s", WAIT_MS / 1000);
    else if (r < 0)
        err_errno(err, -errno, "background process");
    else if (read(fd, &report, 1) != 1)
        report = BACKGROUND_FAILED;
    return report == BACKGROUND_OK ? PROGRAM_DONE : PROGRAM_FAILED;
}

int background_enter(struct background *background, struct err *err)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        int r = err_errno(err, -errno, "no process can be started");
        close_fd(pipe_fds[0]);
        close_fd(pipe_fds[1]);
        return r;
    }
    if (pid > 0) {
        close_fd(pipe_fds[1]);
        printf("%d\n", (int)pid);
        fflush(stdout);
        int code = wait_for_report(pipe_fds[0], err);
        close_fd(pipe_fds[0]);
        return code + 1;
    }
    close_fd(pipe_fds[0]);
    setsid();
    replace_by_null(STDIN_FILENO);
    replace_by_null(STDOUT_FILENO);
    background->fd = pipe_fds[1];
    background->forked = true;
    return 0;
}

void background_report(struct background *background, enum background_report what)
{
    unsigned char byte = (unsigned char)what;
    if (background->fd >= 0) {
        // A failed write means that the reader is gone.
        ssize_t n = write(background->fd, &byte, 1);
        (void)n;
        background->fd = close_fd(background->fd);
    }
    if (background->forked) {
        replace_by_null(STDERR_FILENO);
        background->forked = false;
    }
}
