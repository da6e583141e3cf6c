// SPDX-License-Identifier: Apache-2.0
//
// `pintool measure`: finds the pages that a command needs. First the files' own pages are dropped
// from the cache, not the whole cache. Then the command runs without read-ahead, which would bring
// in pages that the command does not need. Then `pintool file` reports.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/pintool.h"
#include "producer/pintool/read_ahead.h"
#include "producer/pintool/targets.h"
#include "producer/sources/residency/probe.h"

struct devices {
    dev_t items[8];
    struct read_ahead stopped[8];
    size_t n;
};

struct measurement {
    char **file_argv; // owned array of borrowed strings: arguments of `pintool file`
    int file_argc;
    char **command; // borrowed
    bool keep_read_ahead;
    struct file_options options; // owned
    struct targets targets;      // owned
    struct residency_probe *probe;
    struct devices devices;
};

static void measurement_done(struct measurement *m)
{
    for (size_t i = 0; i < m->devices.n; i++)
        read_ahead_restore(&m->devices.stopped[i]);
    m->probe = residency_probe_free(m->probe);
    targets_done(&m->targets);
    file_options_done(&m->options);
    free(m->file_argv);
}

static int print_help(void)
{
    printf("usage: pintool measure FILE... [OPTION...] -- COMMAND [ARGUMENT...]\n"
           "\n"
           "Drops the files' pages from memory, runs the command without read-ahead, and\n"
           "shows the pages that the command read in.\n"
           "\n"
           "      --read-ahead  leave read-ahead as it is\n"
           "\n"
           "measure takes all options of 'pintool file', too, such as --zip, -o and --dump.\n"
           "\n"
           "Example: pintool measure APP.apk --zip -o pinlist.meta -- COMMAND\n");
    return CLI_HELPED;
}

static int parse(struct measurement *m, int argc, char **argv, struct err *err)
{
    if (argc == 2 && str_eq(argv[1], PROGRAM_COMPLETE_OPTIONS)) {
        puts("\tread-ahead\t\tleave read-ahead as it is");
        return file_options_parse(argc, argv, &m->options, err);
    }
    m->file_argv = calloc((size_t)argc + 2, sizeof(*m->file_argv));
    if (!m->file_argv)
        return err_errno(err, -ENOMEM, "measure");
    for (int i = 0; i < argc && !m->command; i++) {
        if (str_eq(argv[i], "--"))
            m->command = argv + i + 1;
        else if (str_eq(argv[i], "--read-ahead"))
            m->keep_read_ahead = true;
        else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
            return print_help();
        else if (!str_eq(argv[i], "--gen-probe"))
            m->file_argv[m->file_argc++] = argv[i];
    }
    m->file_argv[m->file_argc++] = (char *)(uintptr_t) "--gen-probe";
    int r = file_options_parse(m->file_argc, m->file_argv, &m->options, err);
    if (r != 0)
        return r;
    if (m->options.pid || m->options.watch)
        return err_set(err, -EINVAL, "--pid and --watch do not go with measure");
    if (!m->command || !*m->command)
        return err_hint(err, err_set(err, -EINVAL, "no command given"),
                        "it stands after --: pintool measure FILE -- COMMAND");
    return 0;
}

static int stop_read_ahead(struct measurement *m, dev_t device)
{
    struct devices *devices = &m->devices;
    for (size_t i = 0; i < devices->n; i++)
        if (devices->items[i] == device)
            return 0;
    if (m->keep_read_ahead)
        return 0;
    struct err err = {0};
    if (devices->n == ELEMENTS(devices->items)) {
        err_set(&err, -E2BIG, "the files lie on more than %zu devices", devices->n);
        err_hint(&err, -E2BIG, "read-ahead of the others stays on: more pages may be found");
        err_print(&err, PINTOOL);
        return 0;
    }
    size_t i = devices->n++;
    devices->items[i] = device;
    devices->stopped[i] = READ_AHEAD_NONE;
    int r = read_ahead_stop("/sys", device, &devices->stopped[i], &err);
    if (r == 0)
        return 0;
    if (r != -EBUSY)
        err_hint(&err, r, "read-ahead stays on: more pages than needed may be found");
    err_print(&err, PINTOOL);
    return r == -EBUSY ? r : 0;
}

// Pages that remain afterwards are mapped, locked or in use.
static int drop(struct measurement *m, const struct target *target)
{
    CLEANUP(close_fdp) int fd = -1;
    struct err err = {0};
    struct stat st;
    int r = target_open(target, &fd, &st);
    if (r < 0) {
        err_errno(&err, r, "%s", target->path);
        err_print(&err, PINTOOL);
        return r;
    }
    fdatasync(fd); // dirty pages are not dropped
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    struct residency_counts counts;
    uint64_t page_size = residency_page_size(m->probe);
    r = residency_probe_counts(m->probe, fd, residency_pages(st.st_size, page_size), &counts);
    if (r == 0 && counts.cached)
        fprintf(stderr, "%s: %s: %" PRIu64 " bytes are in use elsewhere and stay in memory\n",
                PINTOOL, target->path, counts.cached * page_size);
    return stop_read_ahead(m, st.st_dev);
}

// With `to_stderr` the command's standard output goes to standard error, because pintool's own
// standard output is reserved for the list.
static int run(char **command, bool to_stderr)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    pid_t pid = fork();
    if (pid == 0) {
        sigaction(SIGINT, &interrupt, NULL);
        sigaction(SIGQUIT, &quit, NULL);
        if (to_stderr)
            dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(command[0], command);
        fprintf(stderr, "%s: %s: %s\n", PINTOOL, command[0], strerror(errno));
        _exit(127);
    }
    int status = 0, r = pid < 0 ? -errno : 0;
    while (r == 0 && waitpid(pid, &status, 0) < 0)
        r = errno == EINTR ? 0 : -errno;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    if (r < 0)
        fprintf(stderr, "%s: %s: %s\n", PINTOOL, command[0], strerror(-r));
    else if (WIFSIGNALED(status))
        fprintf(stderr, "%s: %s: ended by signal %d\n", PINTOOL, command[0], WTERMSIG(status));
    else if (WEXITSTATUS(status))
        fprintf(stderr, "%s: %s: exit code %d\n", PINTOOL, command[0], WEXITSTATUS(status));
    return r < 0 || status ? PROGRAM_FAILED : PROGRAM_DONE;
}

static int measure(struct measurement *m, struct err *err)
{
    int r = residency_probe_new(RESIDENCY_AUTO, &m->probe);
    if (r < 0)
        err_errno(err, r, "measure");
    for (size_t i = 0; r == 0 && i < m->options.paths.n; i++)
        r = targets_add_path(&m->targets, m->options.paths.items[i], err);
    if (r < 0) {
        err_print(err, PINTOOL);
        return PROGRAM_FAILED;
    }
    vec_foreach(&m->targets.items, target)
        if (drop(m, target) < 0)
            return PROGRAM_FAILED;
    fflush(stdout);
    const char *const written[] = {m->options.output, m->options.svg, m->options.emit_pinconfig};
    bool to_stderr = false;
    for (size_t i = 0; i < ELEMENTS(written); i++)
        to_stderr |= path_is_stream(written[i]);
    int code = run(m->command, to_stderr);
    // The report follows at once, while the pages are present. Opening the files again reads no
    // page.
    int reported = pintool_file(m->file_argc, m->file_argv);
    return code == PROGRAM_DONE ? reported : code;
}

int pintool_measure(int argc, char **argv)
{
    CLEANUP(measurement_done) struct measurement m = {0};
    struct err err = {0};
    int r = parse(&m, argc, argv, &err);
    if (r != 0)
        return cli_command_wrong(&file_command, r, &err);
    return measure(&m, &err);
}
