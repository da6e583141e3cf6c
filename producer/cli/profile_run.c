// SPDX-License-Identifier: Apache-2.0
//
// The program under test is forked before the session begins, and waits on a pipe until the session
// has begun: a session may need its pid, and its first instructions belong to the profile.
#include "producer/cli/profile_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/converter_child.h"
#include "producer/cli/readout.h"
#include "producer/service/roots.h"
#include "producer/service/session/session.h"
#include "producer/trace/trace_file.h"

#define LINES_TIMEOUT   (60 * NSEC_PER_SEC)
#define LINES_BYTES_MAX ((size_t)256 << 20)

static void write_log(void *userdata, enum log_level level, const char *line)
{
    const struct profile_run *run = userdata;
    if (!run->quiet || level <= LOG_LEVEL_ERROR)
        fprintf(stderr, CLI_PROGRAM ": %s\n", line);
}

static void session_ended(void *userdata, struct session *session)
{
    (void)session;
    loop_quit(((struct profile_run *)userdata)->here.loop);
}

static void child_ended(struct profile_run *run)
{
    if (run->child > 0 && waitpid(run->child, &run->child_status, WNOHANG) == run->child) {
        run->child = 0;
        session_stop(run->session);
    }
}

// The first signal ends the recording. The second signal ends it at once: data that are not written
// yet are lost. The program under test may continue.
static void signal_ready(void *userdata)
{
    struct profile_run *run = userdata;
    for (int number; (number = signals_take(&run->here.signals));) {
        if (number == SIGCHLD) {
            profile_save_child_ended(&run->save);
            child_ended(run);
        } else if (number == SIGUSR1)
            session_dump(run->session);
        else if (session_get_state(run->session) == SESSION_STARTED)
            session_stop(run->session);
        else {
            run->was_aborted = session_get_state(run->session) == SESSION_STOPPING;
            session_abort(run->session);
        }
    }
}

const char *profile_run_name(const struct profile_run *run)
{
    return str_eq(run->out_path, "-") ? "<stdout>" : run->out_path;
}

// The summary reads the trace again, which is not possible on a pipe. Therefore a trace for
// standard output or a pipe is kept in a file without a name until the end.
static int open_stream(struct profile_run *run, struct err *err)
{
    const char *folder = getenv("TMPDIR");
    folder = folder && *folder ? folder : "/tmp";
    run->stream_fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (run->stream_fd < 0)
        return err_errno(err, -errno, "temporary file in %s", folder);
    snprintf(run->stream_path, sizeof(run->stream_path), "/proc/self/fd/%d", run->stream_fd);
    return 0;
}

static int pour(const struct profile_run *run, int fd, struct err *err)
{
    bool write;
    int r = lseek(run->stream_fd, 0, SEEK_SET) < 0 ? -errno : 0;
    if (r == 0)
        r = fd_copy(run->stream_fd, fd, &write);
    return r < 0 ? err_errno(err, r, "%s", profile_run_name(run)) : 0;
}

int profile_run_pour(const struct profile_run *run, struct err *err)
{
    if (run->stream_fd < 0 || run->keeps_older)
        return 0;
    return pour(run, run->direct_fd >= 0 ? run->direct_fd : STDOUT_FILENO, err);
}

// The copy of a recorder that was killed may be all that is left of its profile.
static void keep_part(const struct profile_run *run)
{
    struct stat st;
    char old[PATH_MAX + 8];
    snprintf(old, sizeof(old), "%s.old", run->part_path);
    if (lstat(run->part_path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        rename(run->part_path, old) == 0 && !run->quiet)
        fprintf(stderr, CLI_PROGRAM ": %s of an earlier recording is now %s\n", run->part_path,
                old);
}

// Chooses the names beside the output. Returns whether the folder permits new files.
static bool choose_names(struct profile_run *run)
{
    const char *path = run->out_path;
    struct trace_file *file;
    int n = snprintf(run->new_path, sizeof(run->new_path), "%s.part-%d", path, (int)getpid());
    snprintf(run->part_path, sizeof(run->part_path), "%s.part", path);
    if (n > 0 && (size_t)n < sizeof(run->new_path) &&
        profile_save_make_file(run->new_path, path, &file, NULL) == 0) {
        trace_file_free(file);
        unlink(run->new_path);
        return true;
    }
    run->new_path[0] = run->part_path[0] = '\0';
    return false;
}

// A folder may permit no new files, and a device or a link must stay: such an output is written
// itself, at the end.
static int open_file(struct profile_run *run, struct err *err)
{
    struct stat st;
    const char *path = run->out_path;
    bool is_there = lstat(path, &st) == 0, is_regular = is_there && S_ISREG(st.st_mode);
    run->keeps_older = is_regular && st.st_size > 0;
    if ((!is_there || is_regular) && choose_names(run)) {
        keep_part(run);
        return 0;
    }
    if (run->keeps_older)
        return access(path, W_OK) < 0 ? err_errno(err, -errno, "%s", path) : open_stream(run, err);
    int r = readout_open(path, false, &run->direct_fd, err);
    if (r < 0)
        return r;
    return fstat(run->direct_fd, &st) == 0 && S_ISREG(st.st_mode) ? 0 : open_stream(run, err);
}

static int open_stdout(struct profile_run *run, struct err *err)
{
    if (!isatty(STDOUT_FILENO))
        return open_stream(run, err);
    err_set(err, -EINVAL, "standard output is a terminal, a trace is binary");
    return err_hint(err, -EINVAL, "redirect it to a file or a pipe");
}

static int replace_older(const struct profile_run *run, struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    int r = readout_open(run->out_path, false, &fd, err);
    return r == 0 ? pour(run, fd, err) : r;
}

int profile_run_publish(const struct profile_run *run, bool has_profile, struct err *err)
{
    bool is_new = run->new_path[0], stays = run->keeps_older && !has_profile;
    int r = 0;
    if (stays)
        unlink(run->new_path);
    else if (is_new && rename(run->new_path, run->out_path) < 0)
        r = err_errno(err, -errno, "%s", run->out_path);
    else if (!is_new && run->keeps_older)
        r = replace_older(run, err);
    if (r < 0)
        return is_new ? err_hint(err, r, "the profile is in %s", run->new_path) : r;
    if (has_profile && profile_save_has_copy(&run->save))
        unlink(run->part_path);
    if (!run->quiet)
        fprintf(stderr, CLI_PROGRAM ": %s%s\n", profile_run_name(run),
                stays ? " stays as it was" : "");
    return 0;
}

void profile_run_tell_part(const struct profile_run *run, struct err *err)
{
    struct stat st;
    bool has_copy = profile_save_has_copy(&run->save);
    if (!run->new_path[0])
        return;
    if (has_copy || lstat(run->new_path, &st) < 0 || st.st_size == 0)
        unlink(run->new_path);
    else
        has_copy = rename(run->new_path, run->part_path) == 0;
    if (has_copy)
        err_hint(err, -EIO, "%s%swhat was recorded is in %s", run->keeps_older ? run->out_path : "",
                 run->keeps_older ? " stays as it was; " : "", run->part_path);
}

int profile_run_open_session(struct profile_run *run, struct err *err)
{
    struct session_env env = {
        .loop = run->here.loop,
        .clock = &clock_reader_kernel,
        .log = &run->log,
        .roots = &run->here.roots,
        .classes = source_classes,
        .ignore_triggers = true,
        .required_source = run->required_source,
        .ended = session_ended,
        .userdata = run,
    };
    return session_new(&env, &run->config, &run->session, err);
}

int profile_run_start_session(struct profile_run *run, struct err *err)
{
    int r = session_start(run->session, err);
    return r == 0 ? profile_save_begin(&run->save, run->session, run->here.loop, err) : r;
}

static int make_file(struct profile_run *run, struct trace_file **ret, struct err *err)
{
    if (run->new_path[0])
        return profile_save_make_file(run->new_path, run->out_path, ret, err);
    bool is_stream = run->stream_fd >= 0;
    struct trace_file_options options = {
        .name = profile_run_name(run),
        .path = is_stream ? NULL : run->out_path,
    };
    CLEANUP(close_fdp)
    int fd = fcntl(is_stream ? run->stream_fd : run->direct_fd, F_DUPFD_CLOEXEC, 3);
    int r = fd < 0 ? err_errno(err, -errno, "%s", options.name)
                   : trace_file_new(fd, &options, ret, err);
    if (r == 0)
        steal_fd(&fd);
    return r;
}

static int run_loop(struct profile_run *run, struct err *err)
{
    return loop_run(run->here.loop) < 0 ? err_set(err, -EIO, "event loop") : 0;
}

int profile_run_session(struct profile_run *run, struct err *err)
{
    struct trace_file *file;
    int r = run_loop(run, err);
    profile_save_end(&run->save);
    if (r == 0)
        r = session_result(run->session, err);
    if (r == 0)
        r = make_file(run, &file, err);
    if (r == 0)
        r = session_write_late(run->session, file, err);
    if (r == 0)
        r = run_loop(run, err);
    if (r == 0)
        r = session_result(run->session, err);
    return r == 0 && run->was_aborted
               ? err_set(err, -EINTR, "%s: a second signal has ended the writing",
                         profile_run_name(run))
               : r;
}

int profile_run_open_output(struct profile_run *run, struct err *err)
{
    if (run->wants_lines && !converter_is_there()) {
        err_set(err, -ENOENT, "--lines needs mmsql, which is not found beside mmtrace");
        return err_hint(err, -ENOENT, "install mmsql, or leave out --lines");
    }
    run->save = (struct profile_save){
        .path = run->part_path,
        .new_path = run->new_path,
        .log = &run->log,
    };
    return str_eq(run->out_path, "-") ? open_stdout(run, err) : open_file(run, err);
}

// The signals that end the recording are blocked. They end the search, too.
static int lines_find(int trace, struct strbuf *ret, struct err *err)
{
    static const char *const argv[] = {"mmsql", "symbolize", "--symbols-only", "-", "-o",
                                       "-",     NULL};
    struct strbuf errors CLEANUP(strbuf_done) = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    CLEANUP(close_fdp) int cancel = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    const struct converter_request request = {.argv = argv,
                                              .fd = trace,
                                              .timeout = LINES_TIMEOUT,
                                              .output_max = LINES_BYTES_MAX,
                                              .cancel_fd = cancel};
    int r = converter_run(&request, ret, &errors, err);
    if (r == 0 && (ret->failed || ret->size >= LINES_BYTES_MAX))
        r = err_set(err, -EFBIG, "no lines: more than %zu MiB", LINES_BYTES_MAX >> 20);
    if (r == -EIO) {
        char *text = errors.text ? errors.text : (char[]){""};
        text[strcspn(text, "\n")] = '\0';
        str_make_printable(text, false);
        r = err_set(err, r, "no lines: %s", *text ? text : "mmsql failed");
    }
    return r < 0 && !err->text[0] ? err_errno(err, r, "no lines") : r;
}

bool profile_run_add_lines(const struct profile_run *run)
{
    struct strbuf lines CLEANUP(strbuf_done) = {0};
    struct err err = {0};
    if (!run->wants_lines)
        return true;
    CLEANUP(close_fdp)
    int fd = open(profile_run_trace(run), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    int r = fd < 0 ? err_errno(&err, -errno, "%s", profile_run_name(run))
                   : lines_find(fd, &lines, &err);
    if (r == 0 && (r = fd_write_all(fd, lines.text, lines.size)) < 0)
        err_errno(&err, r, "%s", profile_run_name(run));
    if (r < 0)
        err_print(&err, CLI_PROGRAM);
    return r == 0;
}

int profile_run_open(struct profile_run *run, struct err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, 0}, others[] = {SIGCHLD, SIGUSR1, 0};
    run->here.log = &run->log;
    int r = signals_watch(&run->here.signals, ends, others, err);
    if (r == 0)
        r = recording_open(&run->here, signal_ready, run, err);
    if (r == 0)
        source_roots_find(&run->here.roots);
    return r;
}

static void child_run(struct profile_run *run, int wait_fd, int (*prepare)(void *userdata),
                      void *userdata)
{
    char go;
    close_fd(run->start_fd);
    recording_give_back(&run->here);
    if (read(wait_fd, &go, 1) != 1) // the recorder has failed
        _exit(127);
    if (str_eq(run->out_path, "-")) // standard output is reserved for the trace
        dup2(STDERR_FILENO, STDOUT_FILENO);
    if (!prepare || prepare(userdata) == 0)
        execvp(run->command[0], run->command);
    fprintf(stderr, CLI_PROGRAM ": %s: %s\n", run->command[0], strerror(errno));
    _exit(127);
}

int profile_run_start(struct profile_run *run, int (*prepare)(void *userdata), void *userdata,
                      struct err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    run->start_fd = fds[1];
    run->child = fork();
    if (run->child == 0)
        child_run(run, fds[0], prepare, userdata);
    close_fd(fds[0]);
    if (run->child > 0)
        return 0;
    run->child = 0;
    return err_errno(err, -errno, "no process can be started");
}

void profile_run_release(struct profile_run *run)
{
    ssize_t n = run->start_fd < 0 ? 0 : write(run->start_fd, "", 1);
    (void)n; // a program that was killed meanwhile needs no byte
    run->start_fd = close_fd(run->start_fd);
}

const char *profile_run_trace(const struct profile_run *run)
{
    return run->stream_fd >= 0 ? run->stream_path
           : run->new_path[0]  ? run->new_path
                               : run->out_path;
}

void profile_run_tell_end(const struct profile_run *run)
{
    int status = run->child_status;
    if (run->child > 0)
        fprintf(stderr, CLI_PROGRAM ": %s goes on without profile\n", run->command[0]);
    else if (WIFSIGNALED(status))
        fprintf(stderr, CLI_PROGRAM ": %s was ended by signal %d\n", run->command[0],
                WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        fprintf(stderr, CLI_PROGRAM ": %s ended with exit code %d\n", run->command[0],
                WEXITSTATUS(status));
}

void profile_run_problem(const struct profile_run *run, char *ret, size_t size)
{
    struct session_counts counts;
    session_get_counts(run->session, &counts);
    snprintf(ret, size, "%s", counts.problem ? counts.problem : "");
}

void profile_run_init(struct profile_run *run)
{
    run->start_fd = run->stream_fd = run->direct_fd = run->here.signals.fd = -1;
    run->log = (struct log){.max_level = LOG_LEVEL_INFO, .write = write_log, .userdata = run};
}

void profile_run_done(struct profile_run *run)
{
    profile_save_end(&run->save);
    run->session = session_free(run->session);
    recording_done(&run->here);
    run->start_fd = close_fd(run->start_fd);
    run->stream_fd = close_fd(run->stream_fd);
    run->direct_fd = close_fd(run->direct_fd);
    config_done(&run->config);
}
