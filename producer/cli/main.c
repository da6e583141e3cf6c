// SPDX-License-Identifier: Apache-2.0
//
// Finds the verb and leaves everything to it. Before that it sees to it that descriptors 0 to 2 are
// taken: a caller may have closed them, and an output file or an epoll descriptor in their place
// would receive what is printed, or be taken for standard output by `-o -`.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/err.h"
#include "common/str.h"
#include "producer/cli/cli.h"

static const struct cli_verb verbs[] = {
    {"daemon", "keep configs armed and wait for memory pressure", cli_daemon},
    {"record", "record a trace into a file", cli_record},
    {"heap", "profile the heap of native programs", cli_heap},
    {"trigger", "tell the tracing service that something has happened", cli_trigger},
    {"clone", "write what a running session has so far into a file", cli_clone},
    {"status", "show the tracing service and its sessions", cli_status},
    {"bugreport", "gather traces, memory state and kernel log in a zip", cli_bugreport},
    {"sources", "list the data sources that can be recorded", cli_sources},
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int print_help(void)
{
    printf("usage: mmtrace COMMAND [OPTION...]\n"
           "\n"
           "Records what memory does on this machine, into traces that Perfetto's tools open.\n"
           "\n"
           "Commands:\n");
    for (size_t i = 0; i < N_VERBS; i++)
        printf("  %-12s%s\n", verbs[i].name, verbs[i].summary);
    printf("\n"
           "  -h, --help    this text; after a command, the command's own\n"
           "  --version     the version\n"
           "\n"
           "Examples:\n"
           "  mmtrace record -c mm_events.cfg -o trace.pftrace\n"
           "  mmtrace record -t 10s -o trace.pftrace vmscan/* kmem/rss_stat\n"
           "  mmtrace record --help\n");
    return CLI_DONE;
}

static int wrong_verb(const char *word)
{
    const char *names[N_VERBS];
    for (size_t i = 0; i < N_VERBS; i++)
        names[i] = verbs[i].name;
    const char *nearest = str_nearest(word, names, N_VERBS);
    struct err err = {0};
    err_set(&err, 0, "unknown command \"%s\"", word);
    if (nearest)
        err_hint(&err, 0, "did you mean \"%s\"?", nearest);
    else
        err_hint(&err, 0, "see mmtrace --help");
    err_print(&err, CLI_PROGRAM);
    return CLI_USAGE;
}

// The stand-ins are open the wrong way round, so that use of them fails as that of a closed one
// does.
static int hold_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    if (hold_standard_fds() < 0)
        return CLI_FAILED;
    if (argc < 2) {
        fprintf(stderr, "mmtrace: no command given (see mmtrace --help)\n");
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (str_eq(word, "--help") || str_eq(word, "-h") || str_eq(word, "help"))
        return print_help();
    if (str_eq(word, "--version")) {
        printf("mmtrace " MMTRACE_VERSION "\n");
        return CLI_DONE;
    }
    for (size_t i = 0; i < N_VERBS; i++)
        if (str_eq(word, verbs[i].name))
            return verbs[i].run(argc - 1, argv + 1);
    return wrong_verb(word);
}
