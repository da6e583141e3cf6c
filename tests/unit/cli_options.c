// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/cli/progress.h"
#include "producer/cli/record_options.h"
#include "producer/ground/options.h"
#include "tests/unit/unit.h"

static const struct cli_option table[] = {
    {.id = 90, .help = "First:"},
    {1, 'f', "file", "NAME", "a file"},
    {2, 0, "long-name-that-needs-a-line", "ARGUMENT",
     "two lines, because the text is longer than what fits into one"},
    {3, 'v', "verbose", NULL, "more"},
    {4, 'u', "upload", "WHERE", NULL, "there is nowhere to go"},
    {0},
};

// Takes down "id=value " for each; refuses the operand "bad".
static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct strbuf *seen = userdata;
    if (id == 0 && str_eq(value, "bad"))
        return err_set(err, -EINVAL, "bad operand");
    strbuf_addf(seen, "%d=%s ", id, value ? value : "");
    return 0;
}

#define PARSE(seen, err, ...) parse(seen, err, (char *[]){"verb", __VA_ARGS__, NULL})

static int parse(struct strbuf *seen, struct err *err, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    strbuf_clear(seen);
    *err = (struct err){0};
    return cli_options_parse(table, argc, argv, take, seen, err);
}

static void options_and_operands_come_in_order(void **state)
{
    (void)state;
    struct strbuf seen = {0};
    struct err err;
    assert_int_equal(PARSE(&seen, &err, "a", "-vfx", "--file=y", "b", "--file", "z", "--", "-v"),
                     0);
    assert_string_equal(seen.text, "0=a 3= 1=x 1=y 0=b 1=z 0=-v ");
    strbuf_done(&seen);
}

static void a_flag_needs_nobody(void **state)
{
    (void)state;
    struct flags {
        int before;
        bool wanted, other;
    } flags = {7, false, false};
    static const struct cli_option own[] = {
        {1, 'w', "wanted", NULL, "a flag", .sets = CLI_SETS(struct flags, wanted)},
        {2, 'o', "other", NULL, "another", .sets = CLI_SETS(struct flags, other)},
        {0},
    };
    char *argv[] = {"verb", "-w", NULL};
    struct err err = {0};
    assert_int_equal(cli_options_parse(own, 2, argv, take, &flags, &err), 0);
    assert_int_equal(flags.before, 7);
    assert_true(flags.wanted);
    assert_false(flags.other);
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
    assert_string_equal(err.hint, "");
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
              "  -v, --verbose           more\n");
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
    strbuf_done(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_come_in_order),
        cmocka_unit_test(a_flag_needs_nobody),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(help_is_aligned),
        cmocka_unit_test(record_takes_the_light_flags),
        cmocka_unit_test(flags_win_over_the_config),
        cmocka_unit_test(what_does_not_fit_a_config_is_refused),
        cmocka_unit_test(progress_says_what_was_lost),
    };
    return cmocka_run_group_tests_name("cli_options", tests, NULL, NULL);
}
