// SPDX-License-Identifier: Apache-2.0
//
// Invariant: root runs no program that another user placed. mmsql is searched beside this program
// and in the system's folders. Beside this program, mmsql and its folder must belong to root or to
// this program's owner, and must not be writable by others. A group other than root's may write to
// mmsql only if the group may write to this program, too. The checked file is the file that runs.
#include "producer/cli/converter_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"

#define MESSAGES_MAX  16384 // bytes; further messages of the child are dropped
#define GRACE         (500 * NSEC_PER_MSEC)
#define WAIT_STEP_MS  5
#define PROGRAM_PLACE "/proc/self/fd/%d"

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_IDLE        (3 << 13)

extern char **environ;

// -- the program --

// The members of a group that may write to mmtrace's folder can replace mmtrace itself. So the
// group of a folder does not count.
static bool a_strange_group_may_write(const struct stat *st, const struct stat *self)
{
    return S_ISREG(st->st_mode) && st->st_mode & S_IWGRP && st->st_gid != 0 &&
           !(st->st_gid == self->st_gid && self->st_mode & S_IWGRP);
}

static bool may_be_run(int fd, const struct stat *self, mode_t type)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type)
        return false;
    return geteuid() != 0 || ((st.st_uid == 0 || st.st_uid == self->st_uid) &&
                              !(st.st_mode & S_IWOTH) && !a_strange_group_may_write(&st, self));
}

// Finds mmsql in the folder `name` below `at`. `self` is mmtrace's own program; all zero: root's.
// Returns an O_PATH descriptor, or -1.
static int find_in(int at, const char *name, const struct stat *self)
{
    CLEANUP(close_fdp)
    int folder = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || !may_be_run(folder, self, S_IFDIR))
        return -1;
    int fd = openat(folder, "mmsql", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && may_be_run(fd, self, S_IFREG))
        return fd;
    return close_fd(fd);
}

// Finds mmsql beside this program, or in the build folder.
static int find_beside(void)
{
    char path[PATH_MAX];
    struct stat st;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n <= 0 || stat("/proc/self/exe", &st) < 0)
        return -1;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return -1;
    slash[slash == path] = '\0';
    CLEANUP(close_fdp) int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    int fd = find_in(folder, ".", &st);
    if (fd >= 0)
        return fd;
    CLEANUP(close_fdp) int above = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return above < 0 ? -1 : find_in(above, "converter", &st);
}

static int find_program(void)
{
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/system/bin",
                                          "/vendor/bin"};
    static const struct stat of_root;
    int fd = find_beside();
    for (size_t i = 0; fd < 0 && i < ELEMENTS(folders); i++)
        fd = find_in(AT_FDCWD, folders[i], &of_root);
    return fd;
}

bool converter_is_there(void)
{
    CLEANUP(close_fdp) int fd = find_program();
    return fd >= 0;
}

// -- the child --

struct child {
    pid_t pid;
    int out, errors; // owned
    nsec_t deadline, queued, queued_max;
};

static void child_close(struct child *child)
{
    child->out = close_fd(child->out);
    child->errors = close_fd(child->errors);
}

// The child gets a new session: it does not read the terminal's keys, and does not share the
// priority of the recorder's session (self_guard.c).
static int spawn(int program, const struct converter_request *request, int out, int errors,
                 pid_t *ret)
{
    char place[64];
    snprintf(place, sizeof(place), PROGRAM_PLACE, program);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, reset;
    sigemptyset(&none);
    sigfillset(&reset);
    int r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return r;
    r = -posix_spawnattr_init(&attributes);
    if (r == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &reset);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETSID);
        posix_spawn_file_actions_adddup2(&actions, request->fd, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        r = -posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
        if (r == 0)
            r = -posix_spawn(ret, place, &actions, &attributes, (char **)(uintptr_t)request->argv,
                             environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

static void stand_back(pid_t pid)
{
    setpriority(PRIO_PROCESS, (id_t)pid, 19);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, pid, IOPRIO_IDLE);
}

static int child_start(const struct converter_request *request, struct child *ret, struct err *err)
{
    CLEANUP(close_fdp) int program = find_program();
    int out[2] = {-1, -1}, errors[2] = {-1, -1};
    if (program < 0) {
        err_set(err, -ENOENT, "mmsql: not found beside mmtrace");
        return err_hint(err, -ENOENT, "install mmsql in the same folder");
    }
    int r = pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0 ? -errno : 0;
    if (r == 0 && lseek(request->fd, 0, SEEK_SET) != 0) // the child shares the file offset
        r = -errno;
    if (r == 0)
        r = spawn(program, request, out[1], errors[1], &ret->pid);
    if (r == 0 && request->stands_back)
        stand_back(ret->pid);
    close_fd(out[1]);
    close_fd(errors[1]);
    ret->out = out[0];
    ret->errors = errors[0];
    if (r < 0)
        child_close(ret);
    return r < 0 ? err_errno(err, r, "mmsql") : 0;
}

// Returns how long the child's main thread has waited for a processor.
static nsec_t time_queued(pid_t pid)
{
    char path[64], text[96] = "";
    uint64_t queued = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    return n > 0 && sscanf(text, "%*u %" SCNu64, &queued) == 1 ? (nsec_t)queued : 0;
}

// Returns the rest of the child's time. The time that the child has waited for a processor does not
// count, up to queued_max.
static nsec_t time_left(struct child *child)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (now < child->deadline)
        return child->deadline - now;
    nsec_t queued = time_queued(child->pid), before = child->queued;
    if (queued < 0 || queued > child->queued_max)
        queued = child->queued_max;
    if (queued <= before)
        return 0;
    child->queued = queued;
    child->deadline += queued - before;
    return child->deadline > now ? child->deadline - now : 0;
}

// Reads the available output. Closes the descriptor at the end.
static void take(int *fd, struct strbuf *to, size_t output_max)
{
    char chunk[4096];
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0)
        *fd = close_fd(*fd);
    else if (to->size < output_max)
        strbuf_add(to, chunk, (size_t)n);
}

// Reads the child's output to its end. Returns 0, -ETIMEDOUT or -ECANCELED.
static int child_read(struct child *child, int cancel_fd, struct strbuf *out, size_t output_max,
                      struct strbuf *errors)
{
    while (child->out >= 0 || child->errors >= 0) {
        nsec_t left = time_left(child);
        if (left == 0)
            return -ETIMEDOUT;
        struct pollfd fds[] = {{.fd = child->out, .events = POLLIN},
                               {.fd = child->errors, .events = POLLIN},
                               {.fd = cancel_fd, .events = POLLIN}};
        if (poll(fds, 3, (int)(left / NSEC_PER_MSEC) + 1) < 0)
            continue;
        if (fds[2].revents)
            return -ECANCELED;
        if (fds[0].revents)
            take(&child->out, out, output_max);
        if (fds[1].revents)
            take(&child->errors, errors, MESSAGES_MAX);
    }
    return 0;
}

// Waits for the child. A malicious trace may make the child close its output and keep running.
// Returns 0, or -ETIMEDOUT or -ECANCELED if the child has not ended.
static int child_wait(struct child *child, int cancel_fd, int *ret_status)
{
    struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
    for (;;) {
        pid_t pid = waitpid(child->pid, ret_status, WNOHANG);
        if (pid == child->pid)
            return 0;
        if (pid < 0 && errno != EINTR)
            return -errno;
        if (time_left(child) == 0)
            return -ETIMEDOUT;
        if (poll(&cancel, 1, WAIT_STEP_MS) > 0)
            return -ECANCELED;
    }
}

// At SIGTERM the child removes its temporary files, and gets a short time for this.
static void child_stop(struct child *child)
{
    struct strbuf rest CLEANUP(strbuf_done) = {0};
    int status;
    child->deadline = nsec_now(CLOCK_MONOTONIC) + GRACE;
    child->queued_max = 0;
    kill(child->pid, SIGTERM);
    child_read(child, -1, &rest, 0, &rest);
    if (child_wait(child, -1, &status) == 0)
        return;
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
}

// Reads the child's output until the child has ended. Returns 0 if it succeeded, -EIO if it failed.
static int child_finish(struct child *child, const struct converter_request *request,
                        struct strbuf *out, struct strbuf *errors)
{
    child->deadline = nsec_now(CLOCK_MONOTONIC) + request->timeout;
    child->queued_max = request->queued_max;
    int status = 0;
    int r = child_read(child, request->cancel_fd, out, request->output_max, errors);
    if (r == 0)
        r = child_wait(child, request->cancel_fd, &status);
    if (r < 0)
        child_stop(child);
    child_close(child);
    return r < 0 ? r : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int converter_run(const struct converter_request *request, struct strbuf *out,
                  struct strbuf *errors, struct err *err)
{
    struct child child = {.out = -1, .errors = -1};
    int r = child_start(request, &child, err);
    return r < 0 ? r : child_finish(&child, request, out, errors);
}
