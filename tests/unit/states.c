// SPDX-License-Identifier: Apache-2.0
#include "converter/import/states.h"

#include "tests/unit/database_fixture.h"

#define TRACK 2

struct fixture {
    struct database *db;
    struct failure failure;
    struct args args;
    struct states states;
    sqlite3 *handle;
};
static struct fixture fix;

static int setup(void **state)
{
    (void)state;
    fix = (struct fixture){.db = create()};
    fix.states = (struct states){.db = fix.db, .args = &fix.args, .failure = &fix.failure};
    return args_init(&fix.args, fix.db);
}

static int teardown(void **state)
{
    (void)state;
    states_done(&fix.states);
    args_done(&fix.args);
    database_free(fix.db);
    return 0;
}

static void set_on(uint32_t track, int64_t ts, const char *value, int64_t number)
{
    const struct arg arg = arg_int("number", number);
    struct state_spec spec = {.ts = ts, .track = track, .args = &arg, .n_args = 1};
    if (value)
        spec.value = slice_name(value);
    state_set(&fix.states, &spec);
}

static void write_all(void)
{
    states_finish(&fix.states);
    assert_int_equal(fix.failure.code, 0);
    fix.handle = finish(fix.db);
}

// Asserts id, track, value, begin, duration and the arg of all rows, sorted by id.
static void expect_rows(const char *expected)
{
    static const char sql[] =
        "SELECT group_concat(id || ':' || track_id || ' ' || value || ' ' || ts || '+' || dur || "
        "ifnull(' ' || (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id), ''), ', ')"
        " FROM (SELECT * FROM state ORDER BY id) s";
    query_is(fix.handle, sql, expected);
}

static void a_state_lasts_until_the_next(void **state)
{
    (void)state;
    set_on(TRACK, 10, "on", 1);
    set_on(TRACK, 30, "off", 2);
    set_on(TRACK, 60, "on", 3);
    write_all();
    expect_rows("0:2 on 10+20 1, 1:2 off 30+30 2, 2:2 on 60+-1 3");
    assert_int_equal(fix.states.bounds.start, 10);
    assert_int_equal(fix.states.bounds.end, 60);
}

static void the_same_state_goes_on_and_gets_the_args(void **state)
{
    (void)state;
    set_on(TRACK, 10, "on", 1);
    set_on(TRACK, 20, "on", 5);
    assert_non_null(state_args(&fix.states, TRACK, slice_name("on")));
    assert_null(state_args(&fix.states, TRACK, slice_name("off")));
    assert_null(state_args(&fix.states, TRACK + 9, slice_name("on")));
    set_on(TRACK, 25, "on again", 6);
    write_all();
    expect_rows("0:2 on 10+15 5, 1:2 on again 25+-1 6");
}

static void no_value_ends_the_state(void **state)
{
    (void)state;
    set_on(TRACK, 5, NULL, 0);
    set_on(TRACK, 10, "on", 1);
    set_on(TRACK, 20, NULL, 9);
    set_on(TRACK, 30, NULL, 9);
    set_on(TRACK, 40, "", 2); // the empty text is a value
    set_on(TRACK, 40, "on", 3);
    write_all();
    expect_rows("0:2 on 10+10 1, 1:2  40+0 2, 2:2 on 40+-1 3");
}

static void tracks_are_apart(void **state)
{
    (void)state;
    set_on(TRACK, 10, "a", 1);
    set_on(0, 20, "b", 2);
    set_on(TRACK, 30, "b", 3);
    set_on(7, 40, "c", 4);
    set_on(0, 50, NULL, 0);
    write_all();
    expect_rows("0:2 a 10+20 1, 1:0 b 20+30 2, 2:2 b 30+-1 3, 3:7 c 40+-1 4");
}

// Times of a damaged trace may be anything.
static void times_at_the_ends_of_the_scale_do_no_harm(void **state)
{
    (void)state;
    set_on(TRACK, INT64_MAX, "late", 1);
    set_on(TRACK, INT64_MIN, "early", 2);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT count(*) FROM state"), 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_state_lasts_until_the_next),
        T(the_same_state_goes_on_and_gets_the_args),
        T(no_value_ends_the_state),
        T(tracks_are_apart),
        T(times_at_the_ends_of_the_scale_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
