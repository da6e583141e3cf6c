// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/cli/progress.h"
#include "producer/cli/record_options.h"
#include "producer/ground/options.h"
#include "tests/unit/unit.h"

// Appends "name=value " to the strbuf `userdata`. Refuses the operand "bad".
static int take(void *userdata, const struct cli_option *option, const char *value, struct err *err)
{
    struct strbuf *seen = userdata;
    if (!option && str_eq(value, "bad"))
        return err_set(err, -EINVAL, "bad operand");
    strbuf_addf(seen, "%s=%s ", option ? option->long_name : "", value ? value : "");
    return 0;
}

static const struct cli_option table[] = {
    {.help = "First:"},
    {'f', "file", "NAME", "a file", .take = take},
    {0, "long-name-that-needs-a-line", "ARGUMENT",
     "two lines, because the text is longer than what fits into one", .take = take},
    {'v', "verbose", NULL, "more", .take = take},
    {'u', "upload", "WHERE", .refusal = "there is nowhere to go"},
    {0},
};

static const struct cli_command command = {
    .program = "mmtrace", .verb = "verb", .options = table, .operand = take};

#define PARSE(seen, err, ...) parse(seen, err, (char *[]){"verb", __VA_ARGS__, NULL})

static int parse_with(const struct cli_command *with, void *userdata, struct err *err, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    *err = (struct err){0};
    return cli_command_parse(with, argc, argv, userdata, err);
}

static int parse(struct strbuf *seen, struct err *err, char **argv)
{
    strbuf_clear(seen);
    return parse_with(&command, seen, err, argv);
}

static void options_and_operands_come_in_order(void **state)
{
    (void)state;
    struct strbuf seen = {0};
    struct err err;
    assert_int_equal(PARSE(&seen, &err, "a", "-vfx", "--file=y", "b", "--file", "z", "--", "-v"),
                     0);
    assert_string_equal(seen.text, "=a verbose= file=x file=y =b file=z =-v ");
    strbuf_done(&seen);
}

struct values {
    int before;
    bool wanted, other;
    const char *text;
    nsec_t time;
    uint64_t size;
    uint32_t number;
    int32_t last;
    int after;
};

#define SETS(member) CLI_SETS(struct values, member)

static const struct cli_command valued = {
    .program = "mmtrace",
    .verb = "verb",
    .options =
        (const struct cli_option[]){
            {'w', "wanted", NULL, "a flag", SETS(wanted)},
            {'o', "other", NULL, "another", SETS(other)},
            {'t', "text", "TEXT", "a text", SETS(text), .min = 1},
            {0, "time", "TIME", "a time", SETS(time), .min = NSEC_PER_SEC},
            {0, "size", "SIZE", "a size", SETS(size), .max = 4096},
            {0, "number", "N", "a number", SETS(number), .min = 1, .max = 9, .like = "from 1 to 9"},
            {0, "last", "N", "another", SETS(last)},
            {0, "nothing", "N", "accepted, without effect"},
            {0},
        },
};

static void values_reach_their_members(void **state)
{
    (void)state;
    struct values values = {.before = 7, .last = -1, .after = 8};
    struct err err;
    char *argv[] = {"verb",   "-w",       "-t", "x",      "--time", "1s",        "--size", "4k",
                    "--last", "--number", "9",  "--last", "5",      "--nothing", "2",      NULL};
    argv[8] = "-w";
    assert_int_equal(parse_with(&valued, &values, &err, argv), 0);
    assert_int_equal(values.before, 7);
    assert_true(values.wanted);
    assert_false(values.other);
    assert_string_equal(values.text, "x");
    assert_true(values.time == NSEC_PER_SEC);
    assert_int_equal(values.size, 4096);
    assert_int_equal(values.number, 9);
    assert_int_equal(values.last, 5);
    assert_int_equal(values.after, 8);
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *text, *hint;
    } cases[] = {
        {"--text", "", "--text: TEXT is empty", "see mmtrace verb --help"},
        {"--time", "999ms", "--time 999ms: not a time", "like 500ms, 0.5s, 10s, 2m or 1h"},
        {"--time", "x", "--time x: not a time", "like 500ms, 0.5s, 10s, 2m or 1h"},
        {"--size", "4097", "--size 4097: not a size", "like 512kb, 32mb or 1gb"},
        {"--number", "0", "--number 0: not a number", "from 1 to 9"},
        {"--number", "10", "--number 10: not a number", "from 1 to 9"},
        {"--last", "-1", "--last -1: not a number", "like 20"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct values values = {.number = 77}, before = values;
        struct err err;
        char *argv[] = {"verb", (char *)cases[i].option, (char *)cases[i].value, NULL};
        assert_int_equal(parse_with(&valued, &values, &err, argv), -EINVAL);
        assert_string_equal(err.text, cases[i].text);
        assert_string_equal(err.hint, cases[i].hint);
        assert_memory_equal(&values, &before, sizeof(values));
    }
    struct values values = {0};
    struct err err;
    assert_int_equal(parse_with(&valued, &values, &err, (char *[]){"verb", "x", NULL}), -EINVAL);
    assert_string_equal(err.text, "\"x\": verb takes no arguments");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    struct strbuf seen = {0};
    struct err err;
    assert_int_equal(PARSE(&seen, &err, "--verbos", "--fiel", "x"), -EINVAL);
    assert_string_equal(err.text, "unknown option --fiel");
    assert_string_equal(err.hint, "did you mean --file?");
    assert_int_equal(PARSE(&seen, &err, "--zzzzzzzz"), -EINVAL);
    assert_string_equal(err.text, "unknown option --zzzzzzzz");
    assert_string_equal(err.hint, "see mmtrace verb --help");
    assert_int_equal(PARSE(&seen, &err, "-vq"), -EINVAL);
    assert_string_equal(err.text, "unknown option -q");
    assert_int_equal(PARSE(&seen, &err, "-f"), -EINVAL);
    assert_string_equal(err.text, "-f needs an argument");
    assert_int_equal(PARSE(&seen, &err, "--verbose=1"), -EINVAL);
    assert_string_equal(err.text, "--verbose takes no argument");
    assert_int_equal(PARSE(&seen, &err, "-u", "x"), -EINVAL);
    assert_string_equal(err.text, "-u: there is nowhere to go");
    assert_int_equal(PARSE(&seen, &err, "bad"), -EINVAL);
    assert_string_equal(err.text, "bad operand");
    strbuf_done(&seen);
}

static void help_is_aligned(void **state)
{
    (void)state;
    char text[1024] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    cli_options_print(table, out);
    fclose(out);
    assert_string_equal(
        text, "\nFirst:\n"
              "  -f, --file NAME         a file\n"
              "      --long-name-that-needs-a-line ARGUMENT\n"
              "                          two lines, because the text is longer than what fits\n"
              "                          into one\n"
              "  -v, --verbose           more\n"
              "  -h, --help              this text\n");
}

static void record_takes_the_light_flags(void **state)
{
    (void)state;
    char *argv[] = {"record", "-t", "2m", "-b", "16mb", "-s", "1gb", "-o", "f", "a/b", "c/*", NULL};
    struct record_options options;
    struct err err = {0};
    assert_int_equal(record_options_parse(11, argv, &options, &err), 0);
    assert_int_equal(options.light.n_events, 2);
    assert_string_equal(options.light.events[1], "c/*");

    struct config config = {0};
    assert_int_equal(light_config_make(&options.light, &config, &err), 0);
    assert_int_equal(config.trace->duration_ms, 120000);
    assert_int_equal(config.trace->buffers[0]->size_kb, 16384);
    assert_int_equal(config.trace->max_file_size_bytes, 1 << 30);
    assert_true(config.trace->write_into_file);
    assert_int_equal(config.trace->data_sources[0]->config->ftrace_config->n_ftrace_events, 2);
    assert_true(config.size > 0);
    config_done(&config);
    record_options_done(&options);
}

static void flags_win_over_the_config(void **state)
{
    (void)state;
    static const char text[] = "buffers { size_kb: 64 } duration_ms: 9 flush_period_ms: 7";
    struct light_config light = {.duration = 1500 * NSEC_PER_MSEC, .buffer_bytes = 1 << 20};
    struct config config = {0};
    struct err err = {0};
    assert_int_equal(config_load("t", text, strlen(text), CONFIG_FORMAT_ANY, &config, &err), 0);
    size_t before = config.size;
    assert_int_equal(light_config_override(&light, &config, &err), 0);
    assert_int_equal(config.trace->duration_ms, 1500);
    assert_int_equal(config.trace->buffers[0]->size_kb, 1024);
    assert_int_equal(config.trace->flush_period_ms, 7);
    assert_true(config.size > before);
    config_done(&config);

    static const char two[] = "buffers { size_kb: 64 } buffers { size_kb: 64 }";
    assert_int_equal(config_load("t", two, strlen(two), CONFIG_FORMAT_ANY, &config, &err), 0);
    assert_int_equal(light_config_override(&light, &config, &err), -EINVAL);
    assert_string_equal(err.text, "--buffer: the config has 2 buffers, not one");
    config_done(&config);
}

static void what_does_not_fit_a_config_is_refused(void **state)
{
    (void)state;
    struct config config = {0};
    struct err err = {0};
    struct light_config light = {.duration = 100 * 86400 * NSEC_PER_SEC};
    assert_int_equal(light_config_make(&light, &config, &err), -ERANGE);
    light = (struct light_config){.duration = NSEC_MAX};
    assert_int_equal(light_config_make(&light, &config, &err), -ERANGE);
    light = (struct light_config){.buffer_bytes = UINT64_MAX};
    assert_int_equal(light_config_make(&light, &config, &err), -ERANGE);
}

static void progress_says_what_was_lost(void **state)
{
    (void)state;
    struct strbuf line = {0};
    struct session_counts counts = {.elapsed = 12340 * NSEC_PER_MSEC, .events = 1234567};
    progress_format(&counts, 3565158, &line);
    assert_string_equal(line.text, "12.3 s, 1,234,567 events, 3.4 MB, nothing lost");
    strbuf_clear(&line);
    counts.events = 1;
    counts.events_lost = 1000;
    counts.packets_discarded = 5;
    counts.packets_overwritten = 12;
    progress_format(&counts, 900, &line);
    assert_string_equal(line.text, "12.3 s, 1 event, 900 bytes, 1,000 events lost, "
                                   "12 old packets overwritten");
    strbuf_clear(&line);
    counts.events_lost = 0;
    progress_format(&counts, 20 << 20, &line);
    assert_string_equal(line.text, "12.3 s, 1 event, 20 MB, 5 packets refused by full buffers, "
                                   "12 old packets overwritten");
    strbuf_clear(&line);
    counts = (struct session_counts){.elapsed = NSEC_PER_SEC, .events = 1, .readings_missed = 4};
    progress_format(&counts, 900, &line);
    assert_string_equal(line.text, "1.0 s, 1 event, 900 bytes, 4 readings left out: too late");
    strbuf_clear(&line);
    counts = (struct session_counts){
        .elapsed = NSEC_PER_SEC, .events_lost = 1, .packets_overwritten = 1, .readings_missed = 1};
    progress_format(&counts, 900, &line);
    assert_string_equal(line.text, "1.0 s, 0 events, 900 bytes, 1 event lost, 1 old packet "
                                   "overwritten, 1 reading left out: too late");
    strbuf_done(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_come_in_order),
        cmocka_unit_test(values_reach_their_members),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(help_is_aligned),
        cmocka_unit_test(record_takes_the_light_flags),
        cmocka_unit_test(flags_win_over_the_config),
        cmocka_unit_test(what_does_not_fit_a_config_is_refused),
        cmocka_unit_test(progress_says_what_was_lost),
    };
    return cmocka_run_group_tests_name("cli_options", tests, NULL, NULL);
}
