// SPDX-License-Identifier: Apache-2.0
//
// timeout(1) sends its signal to the command and then to the process group, which includes the
// command. Some supervisors and terminals do the same. The command gets the signal twice within a
// millisecond. The second signal must not drop the recording. A person who presses Ctrl-C again
// because the end takes too long does this later.
#include "producer/cli/recording.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "common/cleanup.h"
#include "common/pbtext.h"
#include "producer/cli/cli.h"
#include "producer/foreign/helper.h"
#include "producer/ground/fd_limit.h"
#include "producer/sources/heap/heap_host.h"

#define REPEATED_WITHIN (300 * NSEC_PER_MSEC)
#define FDS_WANTED      4096

int signals_watch(struct signals *signals, const int *ends, const int *others, struct err *err)
{
    sigemptyset(&signals->ends);
    for (; *ends; ends++)
        sigaddset(&signals->ends, *ends);
    sigset_t set = signals->ends;
    for (; *others; others++)
        sigaddset(&set, *others);
    sigprocmask(SIG_BLOCK, &set, &signals->former);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? err_errno(err, -errno, "signalfd") : 0;
}

static bool repeats(struct signals *signals)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (signals->first)
        return now - signals->first < REPEATED_WITHIN;
    signals->first = now;
    return false;
}

int signals_take(struct signals *signals)
{
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (!sigismember(&signals->ends, (int)info.ssi_signo) || !repeats(signals))
            return (int)info.ssi_signo;
    return 0;
}

int recording_open(struct recording *recording, loop_fn signal_ready, void *userdata,
                   struct err *err)
{
    getrlimit(RLIMIT_NOFILE, &recording->former_fds);
    fd_limit_raise(FDS_WANTED);
    int r = loop_new(&recording->loop);
    if (r == 0)
        r = loop_add_io(recording->loop, recording->signals.fd, EPOLLIN, signal_ready, userdata,
                        &recording->signal_io);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

int recording_help(struct recording *recording, struct heap_host_options *options, struct err *err)
{
    struct foreign_options foreign = {
        .loop = recording->loop,
        .log = recording->log,
        .proc = recording->roots.proc,
        .program = FOREIGN_OWN_PROGRAM,
    };
    int r = foreign_new(&foreign, &recording->foreign);
    if (r < 0)
        return err_errno(err, r, "helpers");
    options->loop = recording->loop;
    options->log = recording->log;
    options->proc = recording->roots.proc;
    options->foreign = recording->roots.foreign = recording->foreign;
    r = heap_host_new(options, &recording->heap_host);
    recording->roots.heap_host = recording->heap_host;
    return r < 0 ? err_errno(err, r, "heap profiles") : 0;
}

void recording_give_back(const struct recording *recording)
{
    sigprocmask(SIG_SETMASK, &recording->signals.former, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_NOFILE, &recording->former_fds);
}

void recording_done(struct recording *recording)
{
    recording->heap_host = heap_host_free(recording->heap_host);
    recording->foreign = foreign_free(recording->foreign);
    recording->signal_io = loop_remove_io(recording->signal_io);
    recording->loop = loop_free(recording->loop);
    recording->signals.fd = close_fd(recording->signals.fd);
}

int recording_print_config(const struct config *config, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    pbtext_print(&config->trace->base, &text);
    if (text.size > 0 && !text.failed)
        fwrite(text.text, 1, text.size, stdout);
    if (text.failed)
        err_errno(err, -ENOMEM, "config");
    else if (fflush(stdout) != 0)
        err_errno(err, -errno, "<stdout>");
    else
        return PROGRAM_DONE;
    return PROGRAM_FAILED;
}
