// SPDX-License-Identifier: Apache-2.0
#include "converter/import/slices.h"

#include "converter/import/stats.h"
#include "converter/import/translations.h"
#include "tests/unit/database_fixture.h"

#define TRACK 3
#define DEPTH 512 // as deep as slices nest

struct fixture {
    struct database *db;
    struct failure failure;
    struct args args;
    struct stats stats;
    struct strset strings;
    struct translations translations;
    struct slices slices;
    sqlite3 *handle;
    int64_t begun_ts; // of the last slice that was awaited
    int n_begun;
};
static struct fixture fix;

static int setup(void **state)
{
    (void)state;
    fix = (struct fixture){.db = create()};
    fix.stats.failure = &fix.failure;
    fix.slices = (struct slices){.db = fix.db,
                                 .args = &fix.args,
                                 .stats = &fix.stats,
                                 .translations = &fix.translations,
                                 .failure = &fix.failure};
    int r = args_init(&fix.args, fix.db);
    stats_enter_machine(&fix.stats, 0);
    return r < 0 ? r : fix.failure.code;
}

static int teardown(void **state)
{
    (void)state;
    slices_done(&fix.slices);
    args_done(&fix.args);
    stats_done(&fix.stats);
    translations_done(&fix.translations);
    strset_done(&fix.strings);
    database_free(fix.db);
    return 0;
}

static struct slice_spec at(int64_t ts, const char *name)
{
    return (struct slice_spec){.ts = ts, .track = TRACK, .name = slice_name(name)};
}

static int64_t begin(int64_t ts, const char *name)
{
    struct slice_spec spec = at(ts, name);
    return slice_begin(&fix.slices, &spec);
}

static int64_t end(int64_t ts, const char *name)
{
    struct slice_spec spec = name ? at(ts, name) : (struct slice_spec){.ts = ts, .track = TRACK};
    return slice_end(&fix.slices, &spec);
}

static int64_t add(int64_t ts, int64_t dur, const char *name)
{
    struct slice_spec spec = at(ts, name);
    spec.dur = dur;
    return slice_add(&fix.slices, &spec);
}

static void write_all(void)
{
    slices_finish(&fix.slices);
    assert_int_equal(fix.failure.code, 0);
    fix.handle = finish(fix.db);
}

// Asserts name, begin, duration, depth and the parent's name of all rows, sorted by begin and
// depth.
static void expect_rows(const char *expected)
{
    static const char sql[] =
        "SELECT group_concat(s.name || ' ' || s.ts || '+' || s.dur || ' ' || s.depth || ' ' ||"
        " ifnull(p.name, '-'), ', ') FROM (SELECT * FROM slice ORDER BY ts, depth) s"
        " LEFT JOIN slice p ON p.id = s.parent_id";
    query_is(fix.handle, sql, expected);
}

static int64_t stat(enum stat number)
{
    return stats_get(&fix.stats, number);
}

static void begins_and_ends_nest(void **state)
{
    (void)state;
    int64_t a = begin(10, "a"), b = begin(20, "b");
    assert_int_equal(end(30, NULL), b);
    assert_int_equal(end(40, NULL), a);
    assert_int_equal(end(50, NULL), SLICE_NONE);
    assert_int_equal(slices_top(&fix.slices, TRACK, &(int64_t){0}), SLICE_NONE);
    write_all();
    expect_rows("a 10+30 0 -, b 20+10 1 a");
    assert_int_equal(fix.slices.bounds.start, 10);
    assert_int_equal(fix.slices.bounds.end, 40);
}

static void tracks_are_apart(void **state)
{
    (void)state;
    begin(10, "a");
    struct slice_spec other = {.ts = 20, .track = TRACK + 1, .name = slice_name("b")};
    slice_begin(&fix.slices, &other);
    assert_int_not_equal(end(30, NULL), SLICE_NONE);
    assert_int_equal(end(31, NULL), SLICE_NONE);
    write_all();
    expect_rows("a 10+20 0 -, b 20+-1 0 -");
}

static void an_end_finds_its_name(void **state)
{
    (void)state;
    int64_t a = begin(10, "a");
    begin(20, "b");
    assert_int_equal(end(30, "none"), SLICE_NONE);
    assert_int_equal(end(40, "a"), a); // the inner one is still open
    assert_int_not_equal(end(40, "b"), SLICE_NONE);
    begin(50, "c");
    write_all();
    expect_rows("a 10+30 0 -, b 20+20 1 a, c 50+-1 0 -");
}

// A slice that begins at the end of a span comes after the span. One that begins earlier is inside.
static void spans_are_open_at_their_end(void **state)
{
    (void)state;
    add(10, 10, "span");
    add(19, 1, "last");
    add(20, 5, "next");
    write_all();
    expect_rows("span 10+10 0 -, last 19+1 1 span, next 20+5 0 -");
}

static void spans_of_equal_times_nest(void **state)
{
    (void)state;
    add(10, 10, "outer");
    add(10, 10, "inner");
    write_all();
    expect_rows("outer 10+10 0 -, inner 10+10 1 outer");
}

static void moments_nest_in_each_other_and_not_in_spans_that_end(void **state)
{
    (void)state;
    add(10, 10, "span");
    add(20, 0, "moment");
    add(20, 0, "again");
    add(20, 4, "later");
    write_all();
    expect_rows("span 10+10 0 -, moment 20+0 0 -, later 20+4 0 -, again 20+0 1 moment");
}

// One nanosecond beyond the outer slice is too long; the length of the outer slice is not.
static void what_reaches_beyond_its_outer_slice_is_left_out(void **state)
{
    (void)state;
    add(10, 10, "outer");
    assert_int_not_equal(add(15, 5, "fits"), SLICE_NONE);
    assert_int_equal(add(16, 5, "beyond"), SLICE_NONE);
    assert_int_equal(stat(STAT_slice_drop_overlapping_complete_event), 1);
    assert_int_not_equal(begin(17, "open"), SLICE_NONE); // nobody knows yet how long it lasts
    write_all();
    expect_rows("outer 10+10 0 -, fits 15+5 1 outer, open 17+-1 2 fits");
}

static void open_slices_end_with_the_span_around_them(void **state)
{
    (void)state;
    add(10, 10, "span");
    begin(12, "open");
    begin(14, "deeper");
    assert_int_not_equal(begin(20, "at the end"), SLICE_NONE); // still inside
    assert_int_equal(stat(STAT_misplaced_end_event), 0);
    begin(21, "after");
    assert_int_equal(stat(STAT_misplaced_end_event), 1);
    write_all();
    expect_rows("span 10+10 0 -, open 12+8 1 span, deeper 14+6 2 open, at the end 20+0 3 deeper, "
                "after 21+-1 0 -");
}

static void a_duration_is_not_negative(void **state)
{
    (void)state;
    assert_int_equal(add(10, -1, "a"), SLICE_NONE);
    assert_int_equal(stat(STAT_slice_negative_duration), 1);
    assert_false(fix.slices.bounds.is_set);
    write_all();
    expect_rows("");
}

static void depth_is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < DEPTH; i++)
        assert_int_not_equal(begin(i, "a"), SLICE_NONE);
    assert_int_equal(begin(DEPTH, "too deep"), SLICE_NONE);
    assert_int_equal(stat(STAT_slice_max_depth_exceeded), 1);
    end(DEPTH + 1, NULL);
    assert_int_not_equal(begin(DEPTH + 2, "room again"), SLICE_NONE);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT max(depth) FROM slice"), DEPTH - 1);
    assert_int_equal(query_int(fix.handle, "SELECT count(*) FROM slice"), DEPTH + 1);
}

static void the_top_is_the_innermost(void **state)
{
    (void)state;
    int64_t ts = 0;
    assert_int_equal(slices_top(&fix.slices, TRACK, &ts), SLICE_NONE);
    begin(10, "a");
    int64_t b = begin(20, "b");
    assert_int_equal(slices_top(&fix.slices, TRACK, &ts), b);
    assert_int_equal(ts, 20);
    assert_int_equal(slices_top(&fix.slices, TRACK + 1, &ts), SLICE_NONE);
}

static void a_new_name_is_for_the_innermost_open_slice(void **state)
{
    (void)state;
    begin(10, "a");
    add(20, 5, "span");
    slice_rename(&fix.slices, TRACK, slice_name("renamed"));
    slice_rename(&fix.slices, TRACK + 1, slice_name("nobody"));
    write_all();
    expect_rows("renamed 10+-1 0 -, span 20+5 1 renamed");
}

static void arguments_of_begin_and_end_are_one_set(void **state)
{
    (void)state;
    const struct arg first = arg_int("first", 1), second = arg_int("second", 2),
                     third = arg_int("third", 3);
    struct slice_spec spec = at(10, "a");
    spec.args = &first;
    spec.n_args = 1;
    slice_begin(&fix.slices, &spec);
    spec.args = &second;
    slice_add_args(&fix.slices, &spec);
    spec.name = slice_name("another");
    slice_add_args(&fix.slices, &spec); // fits no open slice
    spec = at(20, "a");
    spec.args = &third;
    spec.n_args = 1;
    slice_end(&fix.slices, &spec);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT group_concat(key || int_value) = "
                                           "'first1,second2,third3' FROM args JOIN slice "
                                           "USING (arg_set_id)"),
                     1);
}

static void a_track_of_single_slices_counts_begins(void **state)
{
    (void)state;
    struct slice_spec spec = at(10, "a");
    spec.single = true;
    assert_int_not_equal(slice_begin(&fix.slices, &spec), SLICE_NONE);
    spec.ts = 15;
    assert_int_equal(slice_begin(&fix.slices, &spec), SLICE_NONE);
    end(20, NULL);
    write_all();
    expect_rows("a 10+10 0 -");
    assert_int_equal(query_int(fix.handle, "SELECT int_value FROM args WHERE key = "
                                           "'legacy_unnestable_begin_count'"),
                     2);
    assert_int_equal(query_int(fix.handle, "SELECT int_value FROM args WHERE key = "
                                           "'legacy_unnestable_last_begin_ts'"),
                     15);
}

static void thread_time_and_instructions_are_differences(void **state)
{
    (void)state;
    struct slice_spec spec = at(10, "a");
    spec.has_thread_ts = spec.has_instructions = true;
    spec.thread_ts = 100;
    spec.instructions = 1000;
    slice_begin(&fix.slices, &spec);
    spec.ts = 20;
    spec.thread_ts = 107;
    spec.instructions = 1300;
    slice_end(&fix.slices, &spec);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT thread_ts FROM slice"), 100);
    assert_int_equal(query_int(fix.handle, "SELECT thread_dur FROM slice"), 7);
    assert_int_equal(query_int(fix.handle, "SELECT thread_instruction_count FROM slice"), 1000);
    assert_int_equal(query_int(fix.handle, "SELECT thread_instruction_delta FROM slice"), 300);
}

static void a_difference_needs_both_values(void **state)
{
    (void)state;
    struct slice_spec with = at(10, "a"), without = at(10, "a");
    with.has_thread_ts = with.has_instructions = true;
    with.thread_ts = with.instructions = 5;
    slice_begin(&fix.slices, &without);
    slice_end(&fix.slices, &with);
    slice_begin(&fix.slices, &with);
    slice_end(&fix.slices, &without);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT count(*) FROM slice"), 2);
    assert_int_equal(query_int(fix.handle, "SELECT count(thread_ts) FROM slice"), 1);
    assert_int_equal(query_int(fix.handle, "SELECT count(thread_dur) FROM slice"), 0);
    assert_int_equal(query_int(fix.handle, "SELECT count(thread_instruction_delta) FROM slice"), 0);
}

// Args go to the slice by its translated name, also if they have the original name.
static void names_of_begins_ends_and_args_are_translated(void **state)
{
    (void)state;
    uint32_t raw = strset_add_text(&fix.strings, TEXT("a.b"));
    uint32_t plain = strset_add_text(&fix.strings, TEXT("Plain"));
    fix.translations.strings = &fix.strings;
    assert_int_equal(map64_set(&fix.translations.slices, raw, plain), 0);
    const struct arg arg = arg_int("more", 1);
    struct slice_spec spec = at(10, "a.b");
    slice_begin(&fix.slices, &spec);
    spec.args = &arg;
    spec.n_args = 1;
    slice_add_args(&fix.slices, &spec);
    assert_non_null(slice_open_args(&fix.slices, &spec));
    assert_null(slice_open_args(&fix.slices, &(struct slice_spec){.track = TRACK + 1}));
    assert_int_equal(end(20, "a.b"), 0);
    assert_null(slice_open_args(&fix.slices, &spec));
    write_all();
    expect_rows("Plain 10+10 0 -");
    assert_int_equal(query_int(fix.handle, "SELECT group_concat(key) = 'more' FROM args JOIN slice "
                                           "USING (arg_set_id)"),
                     1);
}

static void begun(void *userdata, uint32_t track, int64_t slice, int64_t ts)
{
    struct fixture *f = userdata;
    assert_int_equal(track, TRACK);
    assert_true(slice >= 0);
    f->begun_ts = ts;
    f->n_begun++;
}

static void the_next_slice_of_a_track_is_awaited_once(void **state)
{
    (void)state;
    fix.slices.begun = begun;
    fix.slices.userdata = &fix;
    slice_await(&fix.slices, TRACK); // the track has no slice yet
    slice_begin(&fix.slices, &(struct slice_spec){.ts = 5, .track = TRACK + 1});
    assert_int_equal(fix.n_begun, 0);
    begin(10, "a");
    begin(20, "b");
    assert_int_equal(fix.n_begun, 1);
    assert_int_equal(fix.begun_ts, 10);
    slice_await(&fix.slices, TRACK);
    slice_await(&fix.slices, TRACK);
    add(30, 0, "moment");
    add(30, 0, "moment");
    assert_int_equal(fix.n_begun, 2);
    assert_int_equal(fix.begun_ts, 30);
}

// Times of a damaged trace may be anything.
static void times_at_the_ends_of_the_scale_do_no_harm(void **state)
{
    (void)state;
    add(INT64_MAX - 1, INT64_MAX, "wraps");
    add(INT64_MIN, INT64_MAX, "low");
    begin(INT64_MAX, "open");
    end(INT64_MIN, NULL);
    write_all();
    assert_int_equal(query_int(fix.handle, "SELECT group_concat(integrity_check) = 'ok' FROM "
                                           "pragma_integrity_check"),
                     1);
    assert_int_equal(query_int(fix.handle, "SELECT count(*) FROM slice"), 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(begins_and_ends_nest),
        T(tracks_are_apart),
        T(an_end_finds_its_name),
        T(spans_are_open_at_their_end),
        T(spans_of_equal_times_nest),
        T(moments_nest_in_each_other_and_not_in_spans_that_end),
        T(what_reaches_beyond_its_outer_slice_is_left_out),
        T(open_slices_end_with_the_span_around_them),
        T(a_duration_is_not_negative),
        T(depth_is_bounded),
        T(the_top_is_the_innermost),
        T(a_new_name_is_for_the_innermost_open_slice),
        T(arguments_of_begin_and_end_are_one_set),
        T(a_track_of_single_slices_counts_begins),
        T(thread_time_and_instructions_are_differences),
        T(a_difference_needs_both_values),
        T(names_of_begins_ends_and_args_are_translated),
        T(the_next_slice_of_a_track_is_awaited_once),
        T(times_at_the_ends_of_the_scale_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
