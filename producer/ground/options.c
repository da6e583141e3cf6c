// SPDX-License-Identifier: Apache-2.0
//
// getopt_long() does the parsing. Its error messages are replaced by better ones, which suggest the
// nearest existing name.
#include "producer/ground/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <string.h>

#include "common/program.h"
#include "common/str.h"

#define OPTIONS_MAX 64
#define HELP_COLUMN 26
#define HELP_WIDTH  80

struct getopt_tables {
    char short_names[3 * OPTIONS_MAX + 3];
    struct option long_names[OPTIONS_MAX + 1];
    const char *candidates[OPTIONS_MAX];
    size_t n_long, n_candidates;
};

static void build(const struct cli_option *table, struct getopt_tables *ret)
{
    char *s = ret->short_names;
    *s++ = '-'; // operands come in order, as option 1
    *s++ = ':'; // a missing argument is reported separately
    for (const struct cli_option *o = table; o->id && ret->n_long < OPTIONS_MAX; o++) {
        if (o->short_name) {
            *s++ = o->short_name;
            if (o->argument)
                *s++ = ':';
        }
        if (!o->long_name)
            continue;
        ret->long_names[ret->n_long++] = (struct option){
            .name = o->long_name,
            .has_arg = o->argument ? required_argument : no_argument,
            .val = 256 + o->id,
        };
        if (!o->refusal)
            ret->candidates[ret->n_candidates++] = o->long_name;
    }
    *s = '\0';
}

static const struct cli_option *find(const struct cli_option *table, int value)
{
    for (const struct cli_option *o = table; o->id; o++)
        if ((value >= 256 && o->id == value - 256) ||
            (value < 256 && o->short_name && o->short_name == value))
            return o;
    return NULL;
}

static int unknown_option(const struct getopt_tables *tables, const char *word, struct err *err)
{
    if (!str_starts_with(word, "--"))
        return err_set(err, -EINVAL, "unknown option -%c", optopt);
    char name[64];
    size_t size = strcspn(word + 2, "=");
    snprintf(name, sizeof(name), "%.*s", (int)(size < 63 ? size : 63), word + 2);
    const char *nearest = str_nearest(name, tables->candidates, tables->n_candidates);
    err_set(err, -EINVAL, "unknown option --%s", name);
    return nearest ? err_hint(err, -EINVAL, "did you mean --%s?", nearest) : -EINVAL;
}

static int bad_option(const struct getopt_tables *tables, const struct cli_option *table,
                      const char *word, struct err *err)
{
    const struct cli_option *known = optopt ? find(table, optopt) : NULL;
    if (known && known->long_name && !known->argument && strchr(word, '='))
        return err_set(err, -EINVAL, "--%s takes no argument", known->long_name);
    return unknown_option(tables, word, err);
}

static int take_option(const struct cli_option *option,
                       int (*take)(void *userdata, int id, const char *value, struct err *err),
                       void *userdata, struct err *err)
{
    if (!option->sets)
        return take(userdata, option->id, optarg, err);
    *(bool *)((char *)userdata + option->sets - 1) = true;
    return 0;
}

int cli_options_parse(const struct cli_option *table, int argc, char **argv,
                      int (*take)(void *userdata, int id, const char *value, struct err *err),
                      void *userdata, struct err *err)
{
    struct getopt_tables tables = {0};
    build(table, &tables);
    optind = 0;
    opterr = 0;
    for (;;) {
        int at = optind ? optind : 1;
        int value = getopt_long(argc, argv, tables.short_names, tables.long_names, NULL);
        if (value == -1)
            break;
        int r;
        const struct cli_option *option = find(table, value);
        if (value == 1)
            r = take(userdata, 0, optarg, err);
        else if (value == ':')
            r = err_set(err, -EINVAL, "%s needs an argument", argv[at]);
        else if (!option)
            r = bad_option(&tables, table, argv[at], err);
        else if (option->refusal)
            r = err_set(err, -EINVAL, "%s: %s", argv[at], option->refusal);
        else
            r = take_option(option, take, userdata, err);
        if (r < 0)
            return r;
    }
    for (; optind < argc; optind++) { // behind "--"
        int r = take(userdata, 0, argv[optind], err);
        if (r < 0)
            return r;
    }
    return 0;
}

// Prints the text in lines that fit a terminal, from HELP_COLUMN on, where the first line begins.
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = HELP_COLUMN;
    for (const char *word = text; *word; word += strspn(word, " \n")) {
        size_t size = strcspn(word, " \n");
        if (column > HELP_COLUMN && column + 1 + size > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        fprintf(out, "%s%.*s", column > HELP_COLUMN ? " " : "", (int)size, word);
        column += size + (column > HELP_COLUMN);
        word += size;
    }
    fputc('\n', out);
}

void cli_options_print(const struct cli_option *table, FILE *out)
{
    for (const struct cli_option *o = table; o->id; o++) {
        if (!o->help)
            continue;
        if (!o->long_name && !o->short_name) {
            fprintf(out, "\n%s\n", o->help);
            continue;
        }
        char names[80];
        int n = snprintf(names, sizeof(names), "  %c%c%s%s%s%s%s", o->short_name ? '-' : ' ',
                         o->short_name ? o->short_name : ' ',
                         !o->long_name   ? ""
                         : o->short_name ? ", --"
                                         : "  --",
                         o->long_name ? o->long_name : "", o->argument ? " " : "",
                         o->argument ? o->argument : "", "");
        if (n >= HELP_COLUMN)
            fprintf(out, "%s\n%*s", names, HELP_COLUMN, "");
        else
            fprintf(out, "%-*s", HELP_COLUMN, names);
        print_wrapped(o->help, out);
    }
}

int cli_options_wrong(const char *program, const char *verb, int r, struct err *err)
{
    char name[64];
    if (r == -ENOMEM) {
        err_errno(err, r, "command line");
        err_print(err, program);
        return PROGRAM_FAILED;
    }
    snprintf(name, sizeof(name), verb ? "%s %s" : "%s", program, verb);
    err_print(err, name);
    return PROGRAM_USAGE;
}
