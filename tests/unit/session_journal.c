// SPDX-License-Identifier: Apache-2.0
//
// A session without room for its file, the moments when the file is put on the disk, and the
// file that follows the buffers while they are filled. Linked with --wrap, to count fdatasync().
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "producer/trace/disk.h"
#include "producer/trace/trace_file.h"
#include "tests/unit/file_limit.h"
#include "tests/unit/session_fixture.h"

#define ONE_SOURCE "buffers { size_kb: 64 } data_sources { config { name: 'a' } } "
#define MS         NSEC_PER_MSEC
#define PACKET     10000

static size_t count_source_packets(const struct test *t)
{
    size_t n = 0;
    for (const char *c = file_letters(t); *c; c++)
        n += *c == '.';
    return n;
}

// Leaves out the snapshots of the clocks: with the fake clock, each write-out adds one.
static void assert_letters(const struct test *t, const char *expected)
{
    char found[256];
    size_t n = 0;
    for (const char *c = file_letters(t); *c && n < sizeof(found) - 1; c++)
        if (*c != 'C')
            found[n++] = *c;
    found[n] = '\0';
    assert_string_equal(found, expected);
}

// The second attempt comes one second after the first. From then on the delay doubles with each
// attempt, up to a minute.
static void attempts_become_rare(void **state)
{
    (void)state;
    static const int delays[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct test t;
    assert_int_equal(make(&t, ONE_SOURCE "write_into_file: true file_write_period_ms: 100"), 0);
    with_file(&t);
    start(&t);
    set_file_limit(1);
    pass(&t, 100 * MS - 1);
    assert_int_equal(t.n_no_room, 0);
    pass(&t, 1);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(t.n_no_room, i + 1);
        assert_true(session_waits_for_room(t.session));
        pass(&t, delays[i] * NSEC_PER_SEC - 1);
        assert_int_equal(t.n_no_room, i + 1);
        pass(&t, 1);
    }
    assert_int_equal(t.n_waits, 1); // reported once
    assert_int_equal(t.n_writes, 0);
    no_file_limit(NULL);
    pass(&t, 60 * NSEC_PER_SEC);
    assert_int_equal(t.n_no_room, 9);
    assert_int_equal(t.n_writes, 1);
    assert_false(session_waits_for_room(t.session));
    assert_int_equal(session_unwritten_bytes(t.session), 0);
    session_stop(t.session);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, NULL), 0);
    assert_int_equal(t.n_writes, 1);
    done(&t);
}

static void make_journal(struct test *t, const char *config)
{
    assert_int_equal(make(t, config), 0);
    with_file(t);
    assert_int_equal(session_keep_journal(t->session, &t->err), 0);
}

static void an_owner_need_not_hear_of_room(void **state)
{
    (void)state;
    struct test t;
    no_room_calls = true;
    make_journal(&t, ONE_SOURCE);
    no_room_calls = false;
    start(&t);
    set_file_limit(1);
    pass(&t, 3 * NSEC_PER_SEC);
    assert_true(session_waits_for_room(t.session));
    no_file_limit(NULL);
    pass(&t, 3 * NSEC_PER_SEC);
    assert_false(session_waits_for_room(t.session));
    done(&t);
}

// The end of a recording tries again at once, and says again that it waits.
static void the_end_waits_for_room_too(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, ONE_SOURCE "write_into_file: true file_write_period_ms: 100"), 0);
    with_file(&t);
    start(&t);
    set_file_limit(1);
    pass(&t, 20 * NSEC_PER_SEC);
    int n_no_room = t.n_no_room;
    t.n_rooms = 2; // both rooms are too small
    session_stop(t.session);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_STOPPING);
    assert_int_equal(t.n_no_room, n_no_room + 3);
    assert_int_equal(t.n_waits, 2);
    pass(&t, NSEC_PER_SEC - 1);
    assert_int_equal(t.n_no_room, n_no_room + 3);
    no_file_limit(NULL);
    pass(&t, 1);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(count_source_packets(&t), 1 + 4); // four flushes in 20 s
    done(&t);
}

// Unwritten bytes are the recorded bytes that are still in the buffers, and the bytes that the file
// could not write.
static void unwritten_bytes_are_those_that_could_be_written(void **state)
{
    (void)state;
    struct test t;
    struct session_counts counts;
    assert_int_equal(make(&t, ONE_SOURCE "write_into_file: true file_write_period_ms: 1000"), 0);
    with_file(&t);
    assert_int_equal(session_unwritten_bytes(t.session), 0);
    assert_false(session_has_to_write(t.session));
    start(&t);
    assert_true(session_has_to_write(t.session));
    for (int i = 0; i < 3; i++)
        fake_write(newest, PACKET);
    session_get_counts(t.session, &counts);
    assert_in_range(counts.bytes, 3 * PACKET, 4 * PACKET);
    assert_int_equal(session_unwritten_bytes(t.session), counts.bytes);
    for (int i = 0; i < 7; i++)
        fake_write(newest, PACKET);
    assert_int_equal(session_unwritten_bytes(t.session), session_buffer_bytes(t.session));
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(session_unwritten_bytes(t.session), 0);
    fake_write(newest, PACKET);
    assert_in_range(session_unwritten_bytes(t.session), PACKET, PACKET + 100);
    set_file_limit(1);
    pass(&t, NSEC_PER_SEC); // the bytes go to the file, which cannot write them
    assert_in_range(session_unwritten_bytes(t.session), 2 * PACKET, 2 * PACKET + 400);
    no_file_limit(NULL);
    session_finish(t.session);
    assert_false(session_has_to_write(t.session));
    done(&t);
}

static void the_journal_follows_each_second(void **state)
{
    (void)state;
    struct test t;
    make_journal(&t, ONE_SOURCE);
    start(&t);
    pass(&t, NSEC_PER_SEC - 1);
    assert_string_equal(file_letters(&t), "");
    assert_int_equal(t.n_writes, 0);
    pass(&t, 1);
    assert_letters(&t, "YTUIsS.Z");
    assert_int_equal(t.n_writes, 1);
    pass(&t, 8 * NSEC_PER_SEC);
    assert_letters(&t, "YTUIsS.Z........"); // statistics come each tenth time
    session_stop(t.session);
    pass(&t, 0);
    // The buffer still has everything: the file goes on to its end.
    assert_letters(&t, "YTUIsS.Z........fFx.rZ");
    assert_int_equal(t.n_next, 0);
    assert_int_equal(t.n_writes, 1);
    done(&t);
}

// Nothing is written while a session waits for its trigger.
static void the_journal_waits_for_the_trigger(void **state)
{
    (void)state;
    struct test t;
    const struct service_trigger_hit hit = {
        .name = "t", .producer_name = "p", .stop_delay_ms = 5000};
    make_journal(&t, ONE_SOURCE "trigger_config { trigger_mode: STOP_TRACING "
                                "trigger_timeout_ms: 100000 "
                                "triggers { name: 't' stop_delay_ms: 5000 } }");
    start(&t);
    pass(&t, 5 * NSEC_PER_SEC);
    assert_string_equal(file_letters(&t), "");
    assert_false(session_has_to_write(t.session));
    // Only the snapshot of the clocks is due, every ten seconds.
    assert_int_equal(session_next_due(t.session), fake_time.boot + 5 * NSEC_PER_SEC);
    session_trigger(t.session, &hit);
    assert_true(session_has_to_write(t.session));
    pass(&t, 60 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(t.n_writes, 1);
    assert_true(strlen(file_letters(&t)) > 10);
    done(&t);
}

// Writes a flood of one packet after the other until the session begins its second file.
static size_t flood_until_next(struct test *t)
{
    size_t n = 0;
    for (; t->n_next == 0; n++) {
        assert_true(n < 1000);
        fake_write(newest, PACKET);
        if (n % 4 == 3)
            pass(t, NSEC_PER_SEC);
    }
    return n;
}

// A file larger than twice the buffers plus 1 MiB is replaced by a file that begins with the
// buffers.
static void a_large_journal_begins_anew(void **state)
{
    (void)state;
    struct test t;
    make_journal(&t, ONE_SOURCE);
    start(&t);
    size_t n = flood_until_next(&t);
    size_t limit = 2 * 65536 + (1 << 20);
    assert_in_range(n * PACKET, limit, limit + 8 * PACKET);
    assert_int_equal(t.n_replaced, 1);
    assert_int_equal(t.next_fd, -1);
    size_t n_packets = count_source_packets(&t);
    assert_true(n_packets < 30); // the packets of the ring
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(count_source_packets(&t), n_packets + 1);
    // The ring drops packets that the file has, so the journal is written again at the end.
    for (int i = 0; i < 7; i++)
        fake_write(newest, PACKET);
    pass(&t, NSEC_PER_SEC);
    session_stop(t.session);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(t.n_next, 2);
    assert_int_equal(t.n_replaced, 2);
    assert_int_equal(t.n_kept, 0);
    assert_true(count_source_packets(&t) < 12);
    assert_string_equal(file_letters(&t) + strlen(file_letters(&t)) - 2, "rZ");
    done(&t);
}

// If the second file has no room, the first one goes on. The next attempt comes after a minute.
static void without_room_the_first_file_goes_on(void **state)
{
    (void)state;
    struct test t;
    make_journal(&t, ONE_SOURCE);
    start(&t);
    t.next_start = 8 << 20;
    set_file_limit(4 << 20);
    size_t n = flood_until_next(&t);
    size_t n_packets = n + n / 4 + 1; // with the packets of flushes
    assert_int_equal(t.n_kept, 1);
    assert_int_equal(t.n_no_room, 1);
    assert_int_equal(t.n_waits, 0);
    assert_int_equal(count_source_packets(&t), n_packets);
    pass(&t, 60 * NSEC_PER_SEC - 1);
    assert_int_equal(t.n_next, 1);
    assert_int_equal(count_source_packets(&t), n_packets + 59); // each once
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(t.n_next, 2);
    assert_int_equal(t.n_kept, 2);
    t.no_next = true;
    pass(&t, 60 * NSEC_PER_SEC);
    assert_int_equal(t.n_next, 3);
    assert_int_equal(t.n_kept, 2);
    session_stop(t.session);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, NULL), 0);
    assert_int_equal(count_source_packets(&t), n_packets + 59 + 2 + 60 + 1);
    assert_string_equal(file_letters(&t) + strlen(file_letters(&t)) - 2, "rZ");
    done(&t);
}

// A snapshot takes the content of the buffer: the file then has packets that are not the session's
// any more.
static void a_buffer_that_was_taken_begins_the_end_anew(void **state)
{
    (void)state;
    struct test t;
    make_journal(&t, "buffers { size_kb: 64 clear_before_clone: true } "
                     "data_sources { config { name: 'a' } } ");
    start(&t);
    fake_write(newest, PACKET);
    pass(&t, 3 * NSEC_PER_SEC);
    assert_int_equal(count_source_packets(&t), 4);
    session_prepare_clone(t.session);
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(count_source_packets(&t), 6);
    assert_int_equal(t.n_next, 0);
    session_stop(t.session);
    pass(&t, 0);
    assert_int_equal(t.n_next, 1);
    assert_int_equal(t.n_replaced, 1);
    assert_int_equal(count_source_packets(&t), 3);
    done(&t);
}

static atomic_int n_syncs;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    n_syncs++;
    return __real_fdatasync(fd);
}

// Lets the session and the disk do all work that is due.
static void settle(struct test *t, struct loop *loop)
{
    while (session_get_state(t->session) != SESSION_DONE) {
        pass(t, 0);
        if (session_get_state(t->session) == SESSION_DONE || !trace_file_is_busy(t->file))
            return;
        assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    }
}

// A file is put on the disk every five seconds, at its end, and before it replaces another file.
static void files_reach_the_disk(void **state)
{
    (void)state;
    for (int is_journal = 0; is_journal < 2; is_journal++) {
        struct loop *loop;
        struct disk *disk;
        struct test t;
        assert_int_equal(make(&t, is_journal ? ONE_SOURCE
                                             : ONE_SOURCE "write_into_file: true "
                                                          "file_write_period_ms: 1000"),
                         0);
        assert_int_equal(loop_new(&loop), 0);
        assert_int_equal(disk_new(loop, &disk), 0);
        t.disk = disk;
        with_file(&t);
        if (is_journal)
            assert_int_equal(session_keep_journal(t.session, &t.err), 0);
        start(&t);
        n_syncs = 0;
        int second = 0;
        while (t.n_next == 0 && second < (is_journal ? 100 : 13)) {
            for (int i = 0; i < 5; i++)
                fake_write(newest, PACKET);
            fake_time.boot += NSEC_PER_SEC;
            settle(&t, loop);
            second++;
            assert_int_equal(n_syncs, (second + 4) / 5 + t.n_next);
        }
        assert_int_equal(t.n_replaced, is_journal);
        assert_int_not_equal(second % 5, 1); // no regular sync is due in this second
        int before = n_syncs;
        fake_write(newest, PACKET);
        session_stop(t.session);
        settle(&t, loop);
        assert_int_equal(session_get_state(t.session), SESSION_DONE);
        assert_int_equal(n_syncs, before + 1);
        done(&t);
        disk_free(disk);
        loop_free(loop);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, no_file_limit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attempts_become_rare),
        TEST(an_owner_need_not_hear_of_room),
        TEST(the_end_waits_for_room_too),
        TEST(unwritten_bytes_are_those_that_could_be_written),
        TEST(the_journal_follows_each_second),
        TEST(the_journal_waits_for_the_trigger),
        TEST(a_large_journal_begins_anew),
        TEST(without_room_the_first_file_goes_on),
        TEST(a_buffer_that_was_taken_begins_the_end_anew),
        TEST(files_reach_the_disk),
    };
    return cmocka_run_group_tests_name("session_journal", tests, NULL, NULL);
}
