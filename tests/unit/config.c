// SPDX-License-Identifier: Apache-2.0
//
// The cases that text configs cannot show: recognition, and structs that only a binary config can
// hold. The rest is in tests/golden/config.
#include "producer/service/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/service/config/config_check.h"
#include "tests/unit/unit.h"

static int load(const char *bytes, size_t size, enum config_format format, struct config *ret,
                struct err *err)
{
    return config_load("t", bytes, size, format, ret, err);
}

static void text_and_binary_are_distinguished(void **state)
{
    (void)state;
    static const char text[] = "buffers { size_kb: 10 }\n";
    static const char binary[] = "\x0a\x02\x08\x0a"; // the config of `text`
    struct config from_text = {0}, from_binary = {0};
    struct err err = {0};
    assert_int_equal(load(text, sizeof(text) - 1, CONFIG_FORMAT_ANY, &from_text, &err), 0);
    assert_int_equal(load(binary, 4, CONFIG_FORMAT_ANY, &from_binary, &err), 0);
    assert_int_equal(from_text.size, 4);
    assert_memory_equal(from_text.bytes, binary, 4);
    assert_memory_equal(from_binary.bytes, binary, 4);
    assert_int_equal(from_binary.trace->buffers[0]->size_kb, 10);
    config_done(&from_text);
    config_done(&from_binary);
    assert_null(from_text.trace);
    config_done(&from_text);
}

static void unknown_fields_of_a_binary_config_are_kept(void **state)
{
    (void)state;
    static const char binary[] = "\x0a\x02\x08\x0a\xc2\x3e\x01x"; // also field 1000: "x"
    struct config config = {0};
    assert_int_equal(load(binary, 8, CONFIG_FORMAT_ANY, &config, NULL), 0);
    assert_int_equal(config.size, 8);
    assert_memory_equal(config.bytes, binary, 8);
    config.trace->duration_ms = 5;
    config.trace->has_duration_ms = true;
    assert_int_equal(config_encode(&config, NULL), 0);
    assert_int_equal(config.size,
                     10); // two bytes of duration_ms, and the unknown field
    config_done(&config);
}

static void texts_of_the_recorded_config_are_utf8(void **state)
{
    (void)state;
    static const char text[] =
        "data_sources { config { name: \"\\377\\xc3\\xa4\" ftrace_config { ftrace_events: "
        "\"a\\xc3\" } } } trace_filter { bytecode: \"\\377\" }";
    struct config config = {0};
    assert_int_equal(load(text, sizeof(text) - 1, CONFIG_FORMAT_ANY, &config, NULL), 0);
    config_mend_texts(config.bytes, config.size);
    Pb__TraceConfig *mended = pb__trace_config__unpack(NULL, config.size, config.bytes);
    assert_non_null(mended);
    const Pb__DataSourceConfig *source = mended->data_sources[0]->config;
    assert_string_equal(source->name, "?\xc3\xa4");
    assert_string_equal(source->ftrace_config->ftrace_events[0], "a?");
    assert_int_equal(mended->trace_filter->bytecode.data[0], 0xff); // bytes stay
    pb__trace_config__free_unpacked(mended, NULL);
    config_done(&config);
    uint8_t damaged[] = {0x12, 0x04, 0x0a, 0x7f, 0xff, 0xff};
    config_mend_texts(damaged, sizeof(damaged));
    assert_int_equal(damaged[5], 0xff);
}

static void other_bytes_are_not_a_config(void **state)
{
    (void)state;
    struct config untouched = {.size = 77};
    struct err err = {0};
    assert_int_equal(load("", 0, CONFIG_FORMAT_ANY, &untouched, &err), -EINVAL);
    assert_string_equal(err.text, "t: the trace config is empty");
    assert_int_equal(load(" \n\t", 3, CONFIG_FORMAT_TEXT, &untouched, &err), -EINVAL);
    assert_string_equal(err.text, "t: the trace config is empty");
    assert_int_equal(load("\x01\x02\x03\xff", 4, CONFIG_FORMAT_ANY, &untouched, &err), -EINVAL);
    assert_string_equal(err.text, "t: neither text nor an encoded trace config");
    assert_int_equal(load("\x0a\x02\x08\x0a", 4, CONFIG_FORMAT_TEXT, &untouched, &err), -EINVAL);
    assert_non_null(strstr(err.text, "t:2:1: a byte 0x02 outside of a string\n"));
    assert_int_equal(load("x", CONFIG_SIZE_MAX + 1, CONFIG_FORMAT_ANY, &untouched, &err), -E2BIG);
    assert_string_equal(err.text, "t: larger than 8 MB, too large for a trace config");
    assert_int_equal(untouched.size, 77);
}

// The error of a text with a stray control byte points at the byte.
static void damaged_text_is_still_text(void **state)
{
    (void)state;
    static const char text[] =
        "buffers { size_kb: 10 }\n# a comment of some length\nduration_ms:\x02 5\n";
    struct config config = {0};
    struct err err = {0};
    assert_int_equal(load(text, sizeof(text) - 1, CONFIG_FORMAT_ANY, &config, &err), -EINVAL);
    assert_string_equal(err.text, "t:3:13: a byte 0x02 outside of a string\n"
                                  "    duration_ms:? 5\n"
                                  "                ^");
}

static void write_periods(void **state)
{
    (void)state;
    Pb__TraceConfig trace = PB__TRACE_CONFIG__INIT;
    static const uint32_t cases[][2] = {{0, 5000}, {1, 100}, {99, 100}, {100, 100}, {7000, 7000}};
    for (size_t i = 0; i < 5; i++) {
        trace.file_write_period_ms = cases[i][0];
        assert_int_equal(config_file_write_period_ms(&trace), cases[i][1]);
    }
}

static void buffers_by_name_and_number(void **state)
{
    (void)state;
    Pb__TraceConfig__BufferConfig first = PB__TRACE_CONFIG__BUFFER_CONFIG__INIT, second = first;
    Pb__TraceConfig__BufferConfig *buffers[] = {&first, &second};
    Pb__TraceConfig trace = PB__TRACE_CONFIG__INIT;
    Pb__DataSourceConfig source = PB__DATA_SOURCE_CONFIG__INIT;
    uint32_t target = 77;
    assert_int_equal(config_target_buffer(&trace, &source, &target), -ENOENT);
    trace.buffers = buffers;
    trace.n_buffers = 2;
    second.name = (char *)"b";
    assert_int_equal(config_target_buffer(&trace, &source, &target), 0);
    assert_int_equal(target, 0);
    source.target_buffer = 2;
    assert_int_equal(config_target_buffer(&trace, &source, &target), -ENOENT);
    source.target_buffer_name = (char *)"b";
    assert_int_equal(config_target_buffer(&trace, &source, &target), 0);
    assert_int_equal(target, 1);
    source.target_buffer_name = (char *)"c";
    assert_int_equal(config_target_buffer(&trace, &source, &target), -ENOENT);
}

static void keep_line(void *userdata, enum log_level level, const char *line)
{
    assert_int_equal(level, LOG_LEVEL_WARNING);
    strcat(strcat(userdata, line), "\n");
}

// Numbers that no text config can hold.
static void enums_that_are_unknown(void **state)
{
    (void)state;
    char lines[1024] = "";
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = keep_line, .userdata = lines};
    struct config_check_env env = {.log = &log};
    struct err err = {0};
    Pb__TraceConfig__BufferConfig buffer = PB__TRACE_CONFIG__BUFFER_CONFIG__INIT;
    Pb__TraceConfig__BufferConfig *buffers[] = {&buffer};
    Pb__TraceConfig__TriggerConfig triggers = PB__TRACE_CONFIG__TRIGGER_CONFIG__INIT;
    Pb__TraceConfig trace = PB__TRACE_CONFIG__INIT;
    trace.buffers = buffers;
    trace.n_buffers = 1;
    trace.activate_triggers = (char *[]){(char *)"t"};
    trace.n_activate_triggers = 1;
    buffer.size_kb = 4;
    memset(&buffer.fill_policy, 0xff, sizeof(buffer.fill_policy));
    memset(&trace.compression_type, 0x7f, sizeof(trace.compression_type));
    assert_int_equal(config_check(&trace, &env, &err), 0);
    assert_string_equal(lines, "buffers[0].fill_policy: -1 is unknown here, taken as RING_BUFFER\n"
                               "compression_type: 2139062143 is unknown here and has no effect\n");
    trace.trigger_config = &triggers;
    triggers.trigger_mode = (Pb__TraceConfig__TriggerConfig__TriggerMode)3;
    assert_int_equal(config_check(&trace, &env, &err), -EINVAL);
    assert_string_equal(err.text, "trigger_config.trigger_mode: 3 is unknown here");
}

static void bytes_of_names_are_made_safe(void **state)
{
    (void)state;
    static const char *const names[] = {"linux.ftrace", NULL};
    char lines[1024] = "";
    struct log log = {.max_level = LOG_LEVEL_WARNING, .write = keep_line, .userdata = lines};
    struct config_check_env env = {.log = &log, .source_names = names};
    struct err err = {0};
    struct config config = {0};
    // buffers { size_kb: 10 } data_sources { config { name: "\033[2J\377" } }
    static const char binary[] = "\x0a\x02\x08\x0a\x12\x09\x0a\x07\x0a\x05\x1b[2J\xff";
    assert_int_equal(load(binary, sizeof(binary) - 1, CONFIG_FORMAT_ANY, &config, &err), 0);
    assert_int_equal(config_check(config.trace, &env, &err), 0);
    assert_string_equal(lines, "data_sources[0].config.name: nobody here provides \"?[2J?\", "
                               "nothing is recorded\n");
    config_done(&config);
}

static void this_machine_has_memory(void **state)
{
    (void)state;
    assert_true(config_machine_memory_bytes() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_binary_are_distinguished),
        cmocka_unit_test(unknown_fields_of_a_binary_config_are_kept),
        cmocka_unit_test(texts_of_the_recorded_config_are_utf8),
        cmocka_unit_test(other_bytes_are_not_a_config),
        cmocka_unit_test(damaged_text_is_still_text),
        cmocka_unit_test(write_periods),
        cmocka_unit_test(buffers_by_name_and_number),
        cmocka_unit_test(enums_that_are_unknown),
        cmocka_unit_test(bytes_of_names_are_made_safe),
        cmocka_unit_test(this_machine_has_memory),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
