// SPDX-License-Identifier: Apache-2.0
//
// getopt_long() parses. Its error messages are replaced: the new messages suggest the nearest
// existing name.
#include "producer/ground/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
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

static const struct cli_option help_option = {'h', "help", NULL, "this text"};

static bool is_end(const struct cli_option *option)
{
    return !option->short_name && !option->long_name && !option->help;
}

// Returns option `i` of the table, then --help, then NULL.
static const struct cli_option *option_at(const struct cli_option *table, size_t i)
{
    size_t n = 0;
    while (n < i && !is_end(&table[n]))
        n++;
    return !is_end(&table[n]) ? &table[n] : n == i ? &help_option : NULL;
}

static void build(const struct cli_option *table, struct getopt_tables *ret)
{
    const struct cli_option *o;
    char *s = ret->short_names;
    *s++ = '-'; // operands come in order, as option 1
    *s++ = ':'; // a missing argument is reported separately
    for (size_t i = 0; i < OPTIONS_MAX && (o = option_at(table, i)); i++) {
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
            .val = 256 + (int)i,
        };
        if (!o->refusal)
            ret->candidates[ret->n_candidates++] = o->long_name;
    }
    *s = '\0';
}

static const struct cli_option *find(const struct cli_option *table, int value)
{
    const struct cli_option *o;
    if (value >= 256)
        return option_at(table, (size_t)value - 256);
    for (size_t i = 0; (o = option_at(table, i)); i++)
        if (o->short_name && o->short_name == value)
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

static const struct {
    const char *name, *like;
} kinds[] = {
    [CLI_TIME] = {"a time", "like 500ms, 0.5s, 10s, 2m or 1h"},
    [CLI_SIZE] = {"a size", "like 512kb, 32mb or 1gb"},
    [CLI_NUMBER] = {"a number", "like 20"},
};

static int set_text(const struct cli_option *option, void *place, const char *value,
                    struct err *err)
{
    if (option->min && !*value)
        return err_set(err, -EINVAL, "--%s: %s is empty", option->long_name, option->argument);
    *(const char **)place = value;
    return 0;
}

static int set_number(const struct cli_option *option, void *place, const char *value,
                      struct err *err)
{
    union {
        uint64_t size;
        nsec_t time;
        uint32_t number;
    } all = {0};
    int r = option->sets.kind == CLI_TIME   ? str_parse_duration(value, &all.time)
            : option->sets.kind == CLI_SIZE ? str_parse_size(value, &all.size)
                                            : str_parse_u32(value, &all.number);
    uint64_t n = option->sets.kind == CLI_NUMBER ? all.number : all.size;
    if (r < 0 || n < option->min || (option->max && n > option->max)) {
        err_set(err, -EINVAL, "--%s %s: not %s", option->long_name, value,
                kinds[option->sets.kind].name);
        return err_hint(err, -EINVAL, "%s",
                        option->like ? option->like : kinds[option->sets.kind].like);
    }
    memcpy(place, &all, option->sets.kind == CLI_NUMBER ? sizeof(all.number) : sizeof(all.size));
    return 0;
}

static int print_help(const struct cli_command *command)
{
    fputs(command->usage, stdout);
    cli_options_print(command->options, stdout);
    if (command->more)
        fputs(command->more, stdout);
    return CLI_HELPED;
}

static int take_option(const struct cli_command *command, const struct cli_option *option,
                       void *userdata, const char *word, struct err *err)
{
    if (option->refusal)
        return err_set(err, -EINVAL, "%s: %s", word, option->refusal);
    if (option->take)
        return option->take(userdata, option, optarg, err);
    void *place = (char *)userdata + option->sets.offset;
    if (option->sets.kind == CLI_TEXT)
        return set_text(option, place, optarg, err);
    if (option->sets.kind >= CLI_TIME)
        return set_number(option, place, optarg, err);
    if (option->sets.kind == CLI_FLAG)
        *(bool *)place = true;
    return option == &help_option ? print_help(command) : 0;
}

static int take_operand(const struct cli_command *command, void *userdata, const char *value,
                        struct err *err)
{
    if (!command->operand)
        return err_set(err, -EINVAL, "\"%s\": %s takes no arguments", value, command->verb);
    return command->operand(userdata, NULL, value, err);
}

// Prints a line for each option, for completion by shells: short name, long name, argument and
// help, separated by tabs.
static int print_completion(const struct cli_option *table)
{
    const struct cli_option *o;
    for (size_t i = 0; (o = option_at(table, i)); i++) {
        if (!o->help || o->refusal || (!o->short_name && !o->long_name))
            continue;
        char letter[2] = {o->short_name, '\0'};
        printf("%s\t%s\t%s\t", letter, o->long_name ? o->long_name : "",
               o->argument ? o->argument : "");
        for (const char *c = o->help; *c; c++)
            putchar(*c == '\n' ? ' ' : *c);
        putchar('\n');
    }
    return CLI_HELPED;
}

static int parse(const struct cli_command *command, int argc, char **argv, void *userdata,
                 struct err *err)
{
    struct getopt_tables tables = {0};
    int r = 0;
    if (argc == 2 && str_eq(argv[1], PROGRAM_COMPLETE_OPTIONS))
        return print_completion(command->options);
    build(command->options, &tables);
    optind = 0;
    opterr = 0;
    while (r == 0) {
        int at = optind ? optind : 1;
        int value = getopt_long(argc, argv, tables.short_names, tables.long_names, NULL);
        if (value == -1)
            break;
        const struct cli_option *option = find(command->options, value);
        if (value == 1)
            r = take_operand(command, userdata, optarg, err);
        else if (value == ':')
            r = err_set(err, -EINVAL, "%s needs an argument", argv[at]);
        else if (!option)
            r = bad_option(&tables, command->options, argv[at], err);
        else
            r = take_option(command, option, userdata, argv[at], err);
    }
    for (; r == 0 && optind < argc; optind++) // after "--"
        r = take_operand(command, userdata, argv[optind], err);
    return r;
}

int cli_check(const struct cli_rule *rules, struct err *err)
{
    while (rules->text && !rules->is_broken)
        rules++;
    if (!rules->text)
        return 0;
    err_set(err, -EINVAL, "%s", rules->text);
    return rules->hint ? err_hint(err, -EINVAL, "%s", rules->hint) : -EINVAL;
}

int cli_command_parse(const struct cli_command *command, int argc, char **argv, void *userdata,
                      struct err *err)
{
    int r = parse(command, argc, argv, userdata, err);
    if (r == 0 && command->check)
        r = command->check(userdata, err);
    if (r < 0 && err && !err->hint[0])
        err_hint(err, r, "see %s %s --help", command->program, command->verb);
    return r;
}

void cli_print_wrapped(const char *text, size_t start, FILE *out)
{
    size_t column = start;
    for (const char *word = text; *word; word += strspn(word, " \n")) {
        size_t size = strcspn(word, " \n");
        if (column > start && column + 1 + size > HELP_WIDTH) {
            fprintf(out, "\n%*s", (int)start, "");
            column = start;
        }
        fprintf(out, "%s%.*s", column > start ? " " : "", (int)size, word);
        column += size + (column > start);
        word += size;
    }
    fputc('\n', out);
}

// Prints the options that --help only names.
static void print_named(const struct cli_option *table, FILE *out)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    for (const struct cli_option *o = table; !is_end(o); o++)
        if (o->is_named_only)
            strbuf_addf(&text, "%s--%s%s%s", text.size ? ", " : "The manual page explains ",
                        o->long_name, o->argument ? " " : "", o->argument ? o->argument : "");
    if (text.failed || !text.size)
        return;
    fputc('\n', out);
    strbuf_add_char(&text, '.');
    cli_print_wrapped(text.text, 0, out);
}

void cli_options_print(const struct cli_option *table, FILE *out)
{
    const struct cli_option *o;
    for (size_t i = 0; (o = option_at(table, i)); i++) {
        if (!o->help || o->is_named_only)
            continue;
        if (!o->long_name && !o->short_name) {
            fprintf(out, "\n%s\n", o->help);
            continue;
        }
        char names[80];
        int n = snprintf(names, sizeof(names), "  %c%c%s%s%s%s", o->short_name ? '-' : ' ',
                         o->short_name ? o->short_name : ' ',
                         !o->long_name   ? ""
                         : o->short_name ? ", --"
                                         : "  --",
                         o->long_name ? o->long_name : "", o->argument ? " " : "",
                         o->argument ? o->argument : "");
        if (n >= HELP_COLUMN)
            fprintf(out, "%s\n%*s", names, HELP_COLUMN, "");
        else
            fprintf(out, "%-*s", HELP_COLUMN, names);
        cli_print_wrapped(o->help, HELP_COLUMN, out);
    }
    print_named(table, out);
}

int cli_command_wrong(const struct cli_command *command, int r, struct err *err)
{
    char name[64];
    if (r == CLI_HELPED)
        return PROGRAM_DONE;
    if (r == -ENOMEM)
        err_errno(err, r, "command line");
    snprintf(name, sizeof(name), r == -ENOMEM || command->is_mode ? "%s" : "%s %s",
             command->program, command->verb);
    err_print(err, name);
    return r == -ENOMEM ? PROGRAM_FAILED : PROGRAM_USAGE;
}

int cli_command_main(const struct cli_command *command, int argc, char **argv, void *userdata)
{
    struct err err = {0};
    int r = cli_command_parse(command, argc, argv, userdata, &err);
    if (r != 0)
        return cli_command_wrong(command, r, &err);
    r = command->run(userdata, &err);
    if (r != 0 && err.text[0])
        err_print(&err, command->program);
    return r < 0 ? PROGRAM_FAILED : r;
}
