// SPDX-License-Identifier: Apache-2.0
//
// The programs differ only in their verbs and texts, so that users know all programs once they know
// one of them.
#include "common/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "common/err.h"
#include "common/str.h"

#define VERBS_MAX 32

static void overview(const struct program *program)
{
    char noun[16] = "";
    for (size_t i = 0; program->noun[i] && i < sizeof(noun) - 1; i++)
        noun[i] = (char)toupper((unsigned char)program->noun[i]);
    printf("usage: %s %s ...\n\n%s\n", program->name, noun, program->about);
    for (size_t i = 0; i < program->n_verbs; i++) {
        const struct program_verb *verb = &program->verbs[i];
        if (verb->arguments)
            printf("  %s %s %s\n      %s\n", program->name, verb->name, verb->arguments,
                   verb->summary);
        else
            printf("  %-12s%s\n", verb->name, verb->summary);
    }
    printf("\n"
           "  -h, --help    this text\n"
           "  --version     the version\n"
           "\n"
           "'%s help %s' explains one %s.\n"
           "%s",
           program->name, noun, program->noun, program->more ? program->more : "");
}

static int wrong_verb(const struct program *program, const char *word)
{
    const char *names[VERBS_MAX];
    size_t n = 0;
    for (; n < program->n_verbs && n < VERBS_MAX; n++)
        names[n] = program->verbs[n].name;
    const char *nearest = str_nearest(word, names, n);
    struct err err = {0};
    err_set(&err, -EINVAL, "unknown %s \"%s\"", program->noun, word);
    if (nearest)
        err_hint(&err, -EINVAL, "did you mean \"%s\"?", nearest);
    else
        err_hint(&err, -EINVAL, "see %s --help", program->name);
    err_print(&err, program->name);
    return PROGRAM_USAGE;
}

// Opens /dev/null for closed descriptors, in the wrong direction, so that their use still fails.
static bool hold_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            return false;
    return true;
}

// Prints a line for each verb, with its summary after a tab, for completion by shells.
static int verbs_print(const struct program *program)
{
    for (size_t i = 0; i < program->n_verbs; i++)
        printf("%s\t%s\n", program->verbs[i].name, program->verbs[i].summary);
    return fflush(stdout) == 0 ? PROGRAM_DONE : PROGRAM_FAILED;
}

static const struct program_verb *verb_find(const struct program *program, const char *word)
{
    for (size_t i = 0; i < program->n_verbs; i++)
        if (str_eq(word, program->verbs[i].name))
            return &program->verbs[i];
    return NULL;
}

static int help_print(const struct program *program, const char *word)
{
    char help[] = "--help";
    char *argv[] = {(char *)(uintptr_t)word, help, NULL};
    const struct program_verb *verb = verb_find(program, word);
    return verb ? verb->run(2, argv) : wrong_verb(program, word);
}

int program_main(const struct program *program, int argc, char **argv)
{
    if (!hold_standard_fds())
        return PROGRAM_FAILED;
    signal(SIGCHLD, SIG_DFL); // a parent that ignores SIGCHLD would hide the exit codes of our
                              // children
    if (argc < 2 && !program->bare_is_help) {
        fprintf(stderr, "%s: no %s given (see %s --help)\n", program->name, program->noun,
                program->name);
        return PROGRAM_USAGE;
    }
    const char *word = argc < 2 ? "--help" : argv[1];
    if (str_eq(word, "help") && argc > 2 && argv[2][0] != '-')
        return help_print(program, argv[2]);
    if (str_eq(word, PROGRAM_COMPLETE_VERBS))
        return verbs_print(program);
    if (str_eq(word, "--help") || str_eq(word, "-h") || str_eq(word, "help")) {
        overview(program);
        return PROGRAM_DONE;
    }
    if (str_eq(word, "--version")) {
        printf("%s %s\n", program->name, program->version);
        return PROGRAM_DONE;
    }
    const struct program_verb *verb = verb_find(program, word);
    return verb ? verb->run(argc - 1, argv + 1) : wrong_verb(program, word);
}
