// SPDX-License-Identifier: Apache-2.0
#include "converter/import/tracks.h"

#include "tests/unit/database_fixture.h"

static struct {
    struct database *db;
    struct failure failure;
    struct strset strings;
    struct args args;
    struct tracks tracks;
} fix;

static int setup(void **state)
{
    (void)state;
    fix.db = create();
    fix.strings = (struct strset){0};
    fix.failure = (struct failure){0};
    fix.tracks =
        (struct tracks){.strings = &fix.strings, .args = &fix.args, .failure = &fix.failure};
    return args_init(&fix.args, fix.db);
}

static int teardown(void **state)
{
    (void)state;
    tracks_done(&fix.tracks);
    args_done(&fix.args);
    database_free(fix.db);
    strset_done(&fix.strings);
    return 0;
}

static uint32_t track_of(const char *type, struct track_dimension first,
                         struct track_dimension second, bool counter)
{
    const struct track_spec spec = {
        .type = type, .dimensions = {first, second}, .counter = counter};
    return tracks_get(&fix.tracks, &spec);
}

static uint32_t named(const char *name, size_t size)
{
    const struct track_spec spec = {.type = "named", .name = {name, size}};
    return tracks_get(&fix.tracks, &spec);
}

static const struct track_dimension none;

static struct track_dimension text(const char *value)
{
    return dimension_text("text", value, strlen(value));
}

// Tracks that differ in anything are different tracks. The test asks for each track twice.
static void tracks_are_distinguished_by_type_and_dimensions(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        uint32_t n = 0;
        fix.tracks.machine = 0;
        assert_int_equal(track_of("a", none, none, false), n++);
        assert_int_equal(track_of("a", none, none, true), n++);
        assert_int_equal(track_of("b", none, none, false), n++);
        assert_int_equal(track_of("a", dimension_int("cpu", 0), none, false), n++);
        assert_int_equal(track_of("a", dimension_int("cpu", 1), none, false), n++);
        assert_int_equal(track_of("a", dimension_int("utid", 1), none, false), n++);
        assert_int_equal(track_of("a", dimension_int("cpu", 0), dimension_int("utid", 1), false),
                         n++);
        assert_int_equal(track_of("a", text(""), none, false), n++);
        assert_int_equal(track_of("a", text("x"), none, false), n++);
        assert_int_equal(track_of("a", text("x"), text("y"), false), n++);
        assert_int_equal(track_of("a", text("xt"), text("y"), false), n++);
        fix.tracks.machine = 1;
        assert_int_equal(track_of("a", none, none, false), n++);
        assert_int_equal(fix.tracks.items.n, n);
    }
    assert_int_equal(fix.failure.code, 0);
}

static void a_name_does_not_distinguish_tracks(void **state)
{
    (void)state;
    uint32_t id = named("first", 5);
    assert_int_equal(named("second", 6), id);
    const struct track *track = &fix.tracks.items.items[0];
    assert_string_equal(strset_text(&fix.strings, track->name), "first");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    static char text[TRACK_TEXT_MAX + 10];
    memset(text, 'a', sizeof(text) - 1);
    named(text, sizeof(text) - 1);
    const char *kept = strset_text(&fix.strings, fix.tracks.items.items[0].name);
    assert_int_equal(strlen(kept), TRACK_TEXT_MAX);
    struct track_dimension dimension = dimension_text("text", text, sizeof(text) - 1);
    assert_int_equal(dimension.size, TRACK_TEXT_MAX);
    assert_int_equal(dimension_text("text", text, TRACK_TEXT_MAX).size, TRACK_TEXT_MAX);
    assert_string_equal(dimension_text("text", NULL, 0).text, "");
}

static void some_dimensions_are_columns(void **state)
{
    (void)state;
    uint32_t id = track_of("a", dimension_int("upid", 7), dimension_int("cpu", 3), false);
    uint32_t other = track_of("a", dimension_int("utid", 5), text("x"), true);
    const struct track *tracks = fix.tracks.items.items;
    assert_int_equal(tracks[id].upid, 7);
    assert_int_equal(tracks[id].utid, -1);
    assert_int_equal(tracks[id].cpu, 3);
    assert_int_equal(tracks[other].upid, -1);
    assert_int_equal(tracks[other].utid, 5);
    assert_int_equal(tracks[other].cpu, -1);
    tracks_write(&fix.tracks, fix.db);
    assert_int_equal(fix.failure.code, 0);
    sqlite3 *handle = finish(fix.db);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _track WHERE upid = 7 AND cpu = 3 "
                                       "AND utid IS NULL AND NOT is_counter"),
                     1);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _track WHERE utid = 5 AND is_counter "
                                       "AND parent_id IS NULL AND machine_id = 0"),
                     1);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _track JOIN args ON arg_set_id = "
                                       "dimension_arg_set_id WHERE key IN ('upid', 'cpu', 'utid', "
                                       "'text')"),
                     4);
}

static void a_track_is_described_once(void **state)
{
    (void)state;
    const struct arg first = arg_int("first", 1), second = arg_int("second", 2);
    uint32_t id = named("a", 1);
    track_describe(&fix.tracks, id, &first, 1);
    track_describe(&fix.tracks, id, &second, 1);
    track_describe(&fix.tracks, id + 1, &second, 1); // this track does not exist
    tracks_write(&fix.tracks, fix.db);
    assert_int_equal(fix.failure.code, 0);
    assert_int_equal(query_int(finish(fix.db), "SELECT group_concat(key) = 'first' FROM args JOIN "
                                               "_track ON arg_set_id = source_arg_set_id"),
                     1);
}

static void a_track_that_was_replaced_has_no_row(void **state)
{
    (void)state;
    uint32_t first = track_of("a", none, none, false), second = track_of("b", none, none, false);
    fix.tracks.items.items[first].replaced = true;
    tracks_write(&fix.tracks, fix.db);
    assert_int_equal(fix.failure.code, 0);
    sqlite3 *handle = finish(fix.db);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _track"), 1);
    assert_int_equal(query_int(handle, "SELECT id FROM _track"), second);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(tracks_are_distinguished_by_type_and_dimensions),
        T(a_name_does_not_distinguish_tracks),
        T(long_texts_are_cut),
        T(some_dimensions_are_columns),
        T(a_track_is_described_once),
        T(a_track_that_was_replaced_has_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
