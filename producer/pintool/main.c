// SPDX-License-Identifier: Apache-2.0
//
// pintool: finds the mode and leaves everything to it. Before that it sees to it that descriptors 0
// to 2 are taken: a caller may have closed them, and a pinlist in their place would receive what is
// printed.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/err.h"
#include "common/str.h"
#include "producer/pintool/pintool.h"

static const struct pintool_mode modes[] = {
    {"file", "FILE... [OPTION...]", "show which pages of files are in memory, write pinlists",
     pintool_file},
    {"pinlist", "PINLIST [OPTION...]", "show what a pinlist.meta names", pintool_pinlist},
    {"measure", "FILE... [OPTION...] -- COMMAND",
     "run a command on a cold cache and show which pages it needs", pintool_measure},
    {"suggest", "TRACE-OR-DB --file FILE --quota BYTES -o PINLIST",
     "choose what to pin from what a recording shows", pintool_suggest},
    {"lock", "PINLIST FILE", "keep what a pinlist names in memory until told otherwise",
     pintool_lock},
    {"preload", "PINLIST FILE", "read in what a pinlist names", pintool_preload},
};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static void print_help(FILE *to)
{
    fprintf(to, "usage: pintool MODE ...\n"
                "\n"
                "Which pages of files are in memory, and lists of those that should stay there.\n"
                "\n");
    for (size_t i = 0; i < N_MODES; i++)
        fprintf(to, "  pintool %s %s\n      %s\n", modes[i].name, modes[i].arguments,
                modes[i].summary);
    fprintf(to, "\n"
                "  -h, --help    this text; after a mode, the mode's own\n"
                "  --version     the version\n");
}

static int wrong_mode(const char *word)
{
    const char *names[N_MODES];
    for (size_t i = 0; i < N_MODES; i++)
        names[i] = modes[i].name;
    const char *nearest = str_nearest(word, names, N_MODES);
    struct err err = {0};
    err_set(&err, 0, "unknown mode \"%s\"", word);
    if (nearest)
        err_hint(&err, 0, "did you mean \"%s\"?", nearest);
    else
        err_hint(&err, 0, "see pintool --help");
    err_print(&err, PINTOOL);
    return PINTOOL_USAGE;
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
        return PINTOOL_FAILED;
    if (argc < 2) { // as the tool has always answered it
        print_help(stdout);
        return PINTOOL_DONE;
    }
    const char *word = argv[1];
    if (str_eq(word, "--help") || str_eq(word, "-h") || str_eq(word, "help")) {
        print_help(stdout);
        return PINTOOL_DONE;
    }
    if (str_eq(word, "--version")) {
        printf("pintool " MMTRACE_VERSION "\n");
        return PINTOOL_DONE;
    }
    for (size_t i = 0; i < N_MODES; i++)
        if (str_eq(word, modes[i].name))
            return modes[i].run(argc - 1, argv + 1);
    return wrong_mode(word);
}
