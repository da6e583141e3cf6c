// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/verb_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "converter/cli/cli.h"

#define OPTIONS_MAX  31
#define CONTINUATION "\n        " // begins a further line about an option in a help text
#define OPTION_HELP  256 // the value of --help; the rows of options have the values after it

static bool takes_value(const struct verb_option *option)
{
    return option->kind != OPTION_FLAG && option->kind != OPTION_CHOICE;
}

static int natural_take(const char *verb, const struct verb_option *option, int64_t *ret)
{
    int64_t number;
    if (str_parse_i64(optarg, &number) == 0 && number >= option->value &&
        (!option->max || number <= option->max)) {
        *ret = number;
        return 0;
    }
    if (option->max)
        return usage_error(verb, "--%s %s: not a number from %d to %d", option->name, optarg,
                           option->value, option->max);
    return usage_error(verb, "--%s %s: not a number from %d", option->name, optarg, option->value);
}

// Stores the value of an option. Returns 0, or the program's exit code.
static int option_take(const char *verb, const struct verb_option *option, int argc, char **argv,
                       void *to)
{
    void *at = (char *)to + option->at;
    uint64_t size;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        break;
    case OPTION_CHOICE:
        *(int *)at = option->value;
        break;
    case OPTION_TEXT:
        *(const char **)at = optarg;
        break;
    case OPTION_TEXTS:
        if (option_texts_push(at, optarg) < 0)
            return usage_error(verb, "--%s: out of memory", option->name);
        break;
    case OPTION_NUMBER:
        return str_parse_i64(optarg, at) < 0
                   ? usage_error(verb, "--%s %s: not a number", option->name, optarg)
                   : 0;
    case OPTION_NATURAL:
        return natural_take(verb, option, at);
    case OPTION_SIZE:
        if (str_parse_size(optarg, &size) < 0 || size < (uint64_t)option->value)
            return usage_error(verb, "--%s %s: not a size of at least %d MiB, such as 512m or 2g",
                               option->name, optarg, option->value >> 20);
        *(uint64_t *)at = size;
        break;
    case OPTION_OWN:
        return option->take(to, option, optarg, argc, argv);
    }
    return 0;
}

// Returns the text after the name of an option in the list of a help text, or NULL.
static const char *help_of(const char *help, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = help; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line + strspn(line, " ");
        if (at == line)
            continue;
        if (at[0] == '-' && at[1] != '-' && at[2] == ',')
            at += strlen("-x, ");
        if (str_starts_with(at, "--") && strncmp(at + 2, name, n) == 0 && strchr(" \n", at[2 + n]))
            return at + 2 + n;
    }
    return NULL;
}

// Prints the help of an option: its argument and a tab, then its lines as one. The argument is the
// word in capitals after the name, without the parts in brackets: "DIR" of DIR[@NAME].
// If `values` is not NULL, the values stand there instead.
static void help_print(const char *text, bool takes, const char *values)
{
    bool has_argument = takes && text && text[0] == ' ' && text[1] >= 'A' && text[1] <= 'Z';
    if (!has_argument) {
        fputs(takes ? "VALUE\t" : "\t", stdout);
    } else {
        int n = 0;
        while (text[n + 1] >= 'A' && text[n + 1] <= 'Z')
            n++;
        printf("%.*s\t", values ? (int)strlen(values) : n, values ? values : text + 1);
        while (*text && *text != '\n' && !str_starts_with(text, "  "))
            text++;
    }
    const char *blank = "";
    while (text) {
        text += strspn(text, " ");
        size_t n = strcspn(text, "\n");
        printf("%s%.*s", n ? blank : "", (int)n, text);
        blank = n ? " " : blank;
        text += n;
        text = str_starts_with(text, CONTINUATION) ? text + 1 : NULL;
    }
}

// Prints a line for each option, for completion by shells: letter, name, argument, and help,
// separated by tabs.
static int completion_print(const char *help, const struct verb_option *options)
{
    for (const struct verb_option *row = options; row->name; row++) {
        char letter[2] = {row->letter, '\0'};
        printf("%s\t%s\t", letter, row->name);
        help_print(help_of(help, row->name), takes_value(row), row->values);
        putchar('\n');
    }
    return puts("h\thelp\t\tthis text") < 0 ? EXIT_FAILED : EXIT_DONE;
}

bool verb_options_read(const char *verb, const char *help, const struct verb_option *options,
                       int argc, char **argv, void *to, int *ret_code)
{
    struct option longs[OPTIONS_MAX + 2] = {{"help", no_argument, NULL, OPTION_HELP}};
    char letters[2 * OPTIONS_MAX + 2] = "h", *letter = letters + 1;
    int n = 1, n_take = 0, found, code = 0;
    if (argc == 2 && str_eq(argv[1], PROGRAM_COMPLETE_OPTIONS)) {
        *ret_code = completion_print(help, options);
        return false;
    }
    for (const struct verb_option *row = options; row->name && n <= OPTIONS_MAX; row++, n++) {
        bool takes = takes_value(row);
        n_take += takes;
        n_take += takes;
        longs[n] = (struct option){row->name, takes, NULL, OPTION_HELP + n};
        if (row->letter)
            *letter++ = row->letter;
        if (row->letter && takes)
            *letter++ = ':';
    }
    opterr = 0;
    while (code == 0 && (found = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct verb_option *row = options;
        if (found == 'h' || found == OPTION_HELP) {
            *ret_code = fputs(help, stdout) < 0 ? EXIT_FAILED : EXIT_DONE;
            return false;
        }
        while (found < OPTION_HELP && row->name && row->letter != found)
            row++;
        if (found > OPTION_HELP)
            row += found - OPTION_HELP - 1;
        if (row->name && found != '?')
            code = option_take(verb, row, argc, argv, to);
        else
            code = usage_error(verb, "%s: not an option%s", argv[optind - 1],
                               n_take ? ", or it lacks its value" : "");
    }
    if (code)
        *ret_code = code;
    return code == 0;
}
