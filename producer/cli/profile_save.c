// SPDX-License-Identifier: Apache-2.0
//
// A forked child writes the copy: a dump then changes nothing in the recording, and the recorder
// goes on meanwhile. The child shares the rings of the profiled processes, the loop and the helpers
// with the recorder, and uses none of them.
#include "producer/cli/profile_save.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/nsec.h"
#include "producer/cli/readout.h"
#include "producer/trace/trace_file.h"

#define FIRST_DELAY NSEC_PER_SEC
#define DELAY_MAX   (10 * NSEC_PER_SEC)
#define REST        20 // pause between two copies, in multiples of the time of one
#define CHILD_MAX_S 60 // a copy that takes longer is given up
#define NOT_SAVED   "the profile so far is not saved: "

int profile_save_make_file(const char *path, const char *name, struct trace_file **ret,
                           struct err *err)
{
    struct trace_file_options options = {.name = name, .path = path};
    int fd;
    unlink(path);
    int r = readout_open(path, true, &fd, err);
    if (r < 0)
        return r;
    r = trace_file_new(fd, &options, ret, err);
    if (r < 0) {
        close_fd(fd);
        unlink(path);
    }
    return r;
}

static int write_copy(struct profile_save *save, struct err *err)
{
    struct trace_file *file;
    int r = profile_save_make_file(save->new_path, save->path, &file, err);
    if (r == 0)
        r = session_save_copy(save->session, file, err);
    if (r == 0 && rename(save->new_path, save->path) < 0)
        r = err_errno(err, -errno, "%s", save->path);
    if (r < 0)
        unlink(save->new_path);
    return r;
}

static void run_child(struct profile_save *save)
{
    struct err err = {0};
    sigset_t alarms;
    // Others recognize the end of the recorder by the end of its descriptors.
    fd_close_from(STDERR_FILENO + 1);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(2 * CHILD_MAX_S); // the recorder may end before
    int r = write_copy(save, &err);
    if (r < 0 && !save->has_told)
        log_warning(save->log, NOT_SAVED "%s", err.text);
    _exit(r < 0);
}

static void tell(struct profile_save *save, const char *why)
{
    if (!save->has_told)
        log_warning(save->log, NOT_SAVED "%s", why);
    save->has_told = true;
}

static void save_later(struct profile_save *save, nsec_t delay)
{
    loop_set_timer(save->timer, nsec_now(CLOCK_BOOTTIME) + delay, 0);
}

static void save_now(void *userdata)
{
    struct profile_save *save = userdata;
    struct session_counts counts;
    if (save->writer > 0) {
        kill(save->writer, SIGKILL);
        return;
    }
    session_get_counts(save->session, &counts);
    if (counts.events == 0) {
        save_later(save, FIRST_DELAY);
        return;
    }
    save->began = nsec_now(CLOCK_BOOTTIME);
    session_begin_copy(save->session);
    pid_t writer = fork();
    int error = errno;
    if (writer == 0)
        run_child(save);
    session_end_copy(save->session);
    if (writer < 0)
        tell(save, strerror(error));
    save->writer = writer > 0 ? writer : 0;
    save_later(save, writer > 0 ? CHILD_MAX_S * NSEC_PER_SEC : DELAY_MAX);
}

static void remember_copy(struct profile_save *save)
{
    struct stat st;
    if (lstat(save->path, &st) == 0) {
        save->device = st.st_dev;
        save->inode = st.st_ino;
    }
}

bool profile_save_has_copy(const struct profile_save *save)
{
    struct stat st;
    return save->inode && lstat(save->path, &st) == 0 && st.st_dev == save->device &&
           st.st_ino == save->inode;
}

void profile_save_child_ended(struct profile_save *save)
{
    int status;
    if (save->writer == 0 || waitpid(save->writer, &status, WNOHANG) != save->writer)
        return;
    save->writer = 0;
    if (status == 0)
        remember_copy(save);
    if (WIFSIGNALED(status)) {
        unlink(save->new_path);
        tell(save, "the process that writes was ended, or has taken more than a minute");
    }
    save->has_told |= status != 0;
    save->delay = save->delay * 2 < DELAY_MAX ? save->delay * 2 : DELAY_MAX;
    nsec_t rest = REST * (nsec_now(CLOCK_BOOTTIME) - save->began);
    if (save->timer)
        save_later(save, rest > save->delay ? rest : save->delay);
}

int profile_save_begin(struct profile_save *save, struct session *session, struct loop *loop,
                       struct err *err)
{
    if (!save->path[0])
        return 0;
    save->session = session;
    save->delay = FIRST_DELAY;
    int r = loop_add_timer(loop, nsec_now(CLOCK_BOOTTIME) + save->delay, 0, save_now, save,
                           &save->timer);
    return r < 0 ? err_errno(err, r, "timer") : 0;
}

void profile_save_end(struct profile_save *save)
{
    save->timer = loop_remove_timer(save->timer);
    if (save->writer > 0) {
        kill(save->writer, SIGKILL);
        waitpid(save->writer, NULL, 0);
        unlink(save->new_path);
        save->writer = 0;
    }
}
