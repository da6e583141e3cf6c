// SPDX-License-Identifier: Apache-2.0
#include "converter/import/ftrace/forms.h"

#include <errno.h>
#include <stdio.h>

#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"
#include "tests/unit/unit.h"

static struct {
    struct forms forms;
    struct strset strings;
    struct err err;
} fix;

static int setup(void **state)
{
    (void)state;
    memset(&fix, 0, sizeof(fix));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    forms_done(&fix.forms);
    strset_done(&fix.strings);
    return 0;
}

static int add(const struct ftrace_form *row)
{
    const struct ftrace_event_type *type = ftrace_event_type_by_name(row->event);
    assert_non_null(type);
    return forms_add(&fix.forms, row, type, &fix.strings, &fix.err);
}

static void rows_are_bound_to_the_slots_of_their_fields(void **state)
{
    (void)state;
    const struct ftrace_form row = {"cpu_frequency_limits",
                                    FORM_COUNTER,
                                    .when = "min_freq>=-7",
                                    .type = "limit",
                                    .key = "cpu=cpu_id:u, kind='max'",
                                    .track = "Cpu {cpu_id} Max",
                                    .value = "max_freq",
                                    .args = "min_freq, on=@cpu, level=min_freq?low,high;none, "
                                            "span=max_freq-min_freq, above=max_freq-7, empty=''"};
    assert_int_equal(add(&row), 0);
    const struct form *form = &fix.forms.items.items[0];
    assert_int_equal(form->condition.slot, 0);
    assert_int_equal(form->compared, -7);
    assert_int_equal(form->value.slot, 1);
    assert_int_equal(form->key.n, 2);
    assert_int_equal(form->args.n, 6);
    const struct form_item *args = &fix.forms.lists.items[form->args.first];
    assert_string_equal(args[3].value.less->name, "min_freq");
    assert_null(args[4].value.less);
    assert_int_equal(args[4].value.number, 7);
    assert_int_equal(args[5].text.n, 1);
    const struct form_item *items = &fix.forms.lists.items[form->key.first];
    assert_string_equal(items[0].name, "cpu");
    assert_int_equal(items[0].value.slot, 2);
    assert_string_equal(items[1].name, "kind");
    assert_int_equal(items[1].text.n, 1);
    assert_int_equal(form->track.n, 2); // "Cpu " with a value, and " Max"
    assert_int_equal(fix.forms.choices.n, 3);
    assert_memory_equal(fix.forms.choices.items[2].text, "none", 4);
}

static void each_mistake_in_a_row_is_reported(void **state)
{
    (void)state;
    static const struct {
        struct ftrace_form row;
        const char *text;
    } mistakes[] = {
        {{"cpu_idle", FORM_BEGIN, .name = "{stat}"}, "no such field: stat"},
        {{"cpu_idle", FORM_BEGIN, .name = "{state"}, "no end of: {state"},
        {{"cpu_idle", FORM_BEGIN, .name = "{state:q}"}, "no such shape: q"},
        {{"cpu_idle", FORM_BEGIN, .name = "{@cup}"}, "no such value: @cup"},
        {{"cpu_idle", FORM_BEGIN, .when = "state<x"}, "no number: x"},
        {{"cpu_idle", FORM_BEGIN, .when = "state~3"}, "no such field: state~3"},
        {{"cpu_idle", FORM_BEGIN, .args = "state, @cpu"}, "no name for: @cpu"},
        {{"cpu_idle", FORM_BEGIN, .ts = "time"}, "no such field: time"},
        {{"cpu_idle", FORM_BEGIN, .name = "{state-stat}"}, "no such field: stat"},
        {{"cpu_idle", FORM_BEGIN, .type = "a", .cookie = "id"}, "no such field: id"},
        {{"cpu_idle", FORM_MOMENT, .type = "a", .dur = "time"}, "no such field: time"},
        {{"cpu_idle", FORM_COUNTER, .type = "a", .value = "values"}, "no such field: values"},
        {{"cpu_idle", FORM_COUNTER, .type = "a"}, "a counter without a value: "},
        {{"cpu_idle", FORM_COUNTER, .value = "state"}, "a counter without a type: "},
        {{"cpu_idle", FORM_BEGIN, .type = "a",
          .key = "a=state, b=state, c=state, d=state, e=state, f=state, g=state"},
         "too long: "},
    };
    for (size_t i = 0; i < ELEMENTS(mistakes); i++) {
        char want[128];
        snprintf(want, sizeof(want), "form of ftrace event cpu_idle: %s", mistakes[i].text);
        assert_int_equal(add(&mistakes[i].row), -EINVAL);
        assert_memory_equal(fix.err.text, want, strlen(want));
    }
    assert_int_equal(fix.forms.items.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_bound_to_the_slots_of_their_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(each_mistake_in_a_row_is_reported, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
