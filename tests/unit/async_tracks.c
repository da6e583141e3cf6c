// SPDX-License-Identifier: Apache-2.0
//
// Random begins, ends and spans go to the module and to a slow model of it: a list of tracks
// that is searched from its beginning.
#include "converter/import/async_tracks.h"

#include "tests/unit/database_fixture.h"

#define ROUNDS     20000
#define COOKIES    40
#define TRACKS_MAX 256

static struct {
    struct database *db;
    struct failure failure;
    struct strset strings;
    struct args args;
    struct tracks tracks;
    struct async_tracks all;
} fix;

static int setup(void **state)
{
    (void)state;
    memset(&fix, 0, sizeof(fix));
    fix.db = create();
    fix.tracks =
        (struct tracks){.strings = &fix.strings, .args = &fix.args, .failure = &fix.failure};
    fix.all.tracks = &fix.tracks;
    return args_init(&fix.args, fix.db);
}

static int teardown(void **state)
{
    (void)state;
    async_tracks_done(&fix.all);
    tracks_done(&fix.tracks);
    args_done(&fix.args);
    database_free(fix.db);
    strset_done(&fix.strings);
    return 0;
}

static const struct track_spec group = {.type = "async"}, other = {.type = "other"};

// A track of the model. `n_offers` counts how often the track was offered to the next cookie.
struct model_track {
    int64_t cookie, end;
    uint32_t n_open, n_offers, id;
    bool has_cookie, is_of_spans, has_id;
};

static struct {
    struct model_track items[TRACKS_MAX];
    size_t n;
} model;

static struct model_track *model_add(void)
{
    assert_true(model.n < TRACKS_MAX);
    model.items[model.n] = (struct model_track){0};
    return &model.items[model.n++];
}

static struct model_track *model_of_cookie(int64_t cookie)
{
    struct model_track *found = NULL;
    for (size_t i = 0; i < model.n; i++)
        if (model.items[i].has_cookie && model.items[i].cookie == cookie)
            return &model.items[i];
    // Takes the first track that is offered and not in use. An offer of a track in use is void.
    for (size_t i = 0; i < model.n && !found; i++) {
        if (model.items[i].n_offers && !model.items[i].n_open) {
            found = &model.items[i];
            found->n_offers--;
        } else {
            model.items[i].n_offers = 0;
        }
    }
    found = found ? found : model_add();
    found->has_cookie = true;
    found->cookie = cookie;
    return found;
}

static struct model_track *model_of_span(int64_t ts, int64_t end)
{
    struct model_track *found = NULL;
    for (size_t i = 0; i < model.n && !found; i++)
        if (model.items[i].is_of_spans && model.items[i].end <= ts)
            found = &model.items[i];
    found = found ? found : model_add();
    found->is_of_spans = true;
    found->end = end;
    return found;
}

// A track of the model has one id for ever, and no other track has it.
static void same(struct model_track *track, uint32_t id)
{
    if (!track->has_id)
        for (size_t i = 0; i < model.n; i++)
            assert_false(model.items[i].has_id && model.items[i].id == id);
    else
        assert_int_equal(track->id, id);
    track->has_id = true;
    track->id = id;
}

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)seed * below) >> 32);
}

static void random_slices(void **state)
{
    (void)state;
    for (seed = 1; seed < 4; seed++) {
        model.n = 0;
        int64_t now = 1000;
        char type[] = {'a', (char)('a' + seed), 0};
        const struct track_spec spec = {.type = type};
        uint32_t kept = seed;
        for (int i = 0; i < ROUNDS; i++) {
            int64_t cookie = draw(COOKIES);
            bool single = draw(3) == 0;
            struct model_track *track;
            now += draw(5);
            switch (draw(5)) {
            case 0:
            case 1:
                track = model_of_cookie(cookie);
                track->n_open = single ? 1 : track->n_open + 1;
                same(track, async_track_begin(&fix.all, &spec, cookie, single));
                break;
            case 2:
            case 3:
                track = model_of_cookie(cookie);
                track->n_open -= track->n_open > 0;
                track->n_offers += !track->n_open;
                same(track, async_track_end(&fix.all, &spec, cookie));
                break;
            default: {
                int64_t dur = draw(60);
                track = model_of_span(now, now + dur);
                same(track, async_track_span(&fix.all, &spec, now, dur));
            }
            }
        }
        assert_true(model.n > COOKIES / 2);
        seed = kept;
    }
    assert_int_equal(fix.failure.code, 0);
}

static void overlapping_slices_have_tracks_of_their_own(void **state)
{
    (void)state;
    uint32_t first = async_track_begin(&fix.all, &group, 1, false);
    uint32_t second = async_track_begin(&fix.all, &group, 2, false);
    assert_int_not_equal(first, second);
    assert_int_equal(async_track_end(&fix.all, &group, 1), first);
    assert_int_equal(async_track_begin(&fix.all, &group, 3, false), first);
    assert_int_equal(async_track_end(&fix.all, &group, 2), second);
    assert_int_not_equal(async_track_begin(&fix.all, &other, 3, false), first);
}

static void nested_begins_keep_the_track(void **state)
{
    (void)state;
    uint32_t first = async_track_begin(&fix.all, &group, 1, false);
    assert_int_equal(async_track_begin(&fix.all, &group, 1, false), first);
    async_track_end(&fix.all, &group, 1);
    assert_int_not_equal(async_track_begin(&fix.all, &group, 2, false), first);
    async_track_end(&fix.all, &group, 1);
    assert_int_equal(async_track_begin(&fix.all, &group, 3, false), first);
}

static void begins_within_each_other_may_count_as_one(void **state)
{
    (void)state;
    uint32_t first = async_track_begin(&fix.all, &group, 1, true);
    async_track_begin(&fix.all, &group, 1, true);
    async_track_end(&fix.all, &group, 1);
    assert_int_equal(async_track_begin(&fix.all, &group, 2, true), first);
}

static void a_span_that_ends_when_the_next_begins_shares_its_track(void **state)
{
    (void)state;
    uint32_t first = async_track_span(&fix.all, &group, 100, 50);
    assert_int_not_equal(async_track_span(&fix.all, &group, 149, 10), first);
    assert_int_equal(async_track_span(&fix.all, &group, 150, 10), first);
}

static void the_first_track_is_that_of_the_group(void **state)
{
    (void)state;
    uint32_t first = async_track_first(&fix.all, &group);
    assert_int_equal(async_track_first(&fix.all, &group), first);
    assert_int_equal(async_track_begin(&fix.all, &group, 7, false), first);
    assert_int_equal(async_track_first(&fix.all, &group), first);
    assert_int_not_equal(async_track_first(&fix.all, &other), first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(random_slices),
        TEST(overlapping_slices_have_tracks_of_their_own),
        TEST(nested_begins_keep_the_track),
        TEST(begins_within_each_other_may_count_as_one),
        TEST(a_span_that_ends_when_the_next_begins_shares_its_track),
        TEST(the_first_track_is_that_of_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
