// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: their contents, their owners, and their way into files.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/service_fixture.h"

static uint64_t clone_with(const struct service_clone_request *request, int expected)
{
    struct service_clone_result result = {0};
    t.err = (struct err){0};
    int r = service_clone(t.service, &t.consumer, request, &result, &t.err);
    if (r != expected)
        fail_msg("%d instead of %d: %s", r, expected, t.err.text);
    return result.session_id;
}

static void snapshot_holds_what_there_is(void **state)
{
    (void)state;
    uint64_t id =
        enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' }") "unique_session_name: 'n'");
    fire("t");
    struct service_trigger_hit hit = {.name = "t", .producer_name = "p", .stop_delay_ms = 5};
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id, .trigger = &hit}, 0);
    pass(NSEC_PER_SEC);
    uint64_t b = clone_with(&(struct service_clone_request){.unique_session_name = "n"}, 0);
    assert_string_equal(read_letters(a), "ct..Z");
    assert_string_equal(read_letters(b), "...Z"); // the packet of the trigger is in the first
    assert_string_equal(read_letters(a), "Z");
    assert_int_equal(n_running, 1);
    assert_string_equal(t.diary, "1 started, 1 clone t");
    // A snapshot has the name of its session, but does not reserve the name, and cannot be cloned.
    service_destroy(t.service, id);
    clone_with(&(struct service_clone_request){.unique_session_name = "n"}, -ENOENT);
    clone_with(&(struct service_clone_request){.session_id = a}, -EINVAL);
    enable(SOURCE "unique_session_name: 'n'");
}

static void snapshot_of_a_waiting_session_is_readable(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    assert_string_equal(read_letters(id), "");
    assert_string_equal(read_letters(a), "..Z");
    fire("t");
    pass(NSEC_PER_SEC);
    assert_string_equal(read_letters(id), "t...Z");
}

static void bugreport_takes_the_highest_score(void **state)
{
    (void)state;
    clone_with(&(struct service_clone_request){.for_bugreport = true}, -ENOENT);
    enable(SOURCE);
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }") "bugreport_score: 100");
    enable(SOURCE "bugreport_score: 5 unique_session_name: 'low'");
    enable(SOURCE "bugreport_score: 50 unique_session_name: 'high'");
    uint64_t a = clone_with(&(struct service_clone_request){.for_bugreport = true}, 0);
    Pb__TracingServiceState *told = service_query_state(t.service, true);
    assert_int_equal(told->n_tracing_sessions, 5);
    const Pb__TracingServiceState__TracingSession *copy = told->tracing_sessions[4];
    const Pb__TracingServiceState__SessionDetails *armed = told->tracing_sessions[1]->details;
    assert_int_equal(copy->id, a);
    assert_string_equal(copy->unique_session_name, "high");
    assert_string_equal(copy->details->state, "snapshot");
    assert_string_equal(armed->state, "armed");
    assert_int_equal(armed->next_due_ns, fake_time.boot + 60 * NSEC_PER_SEC);
    pb__tracing_service_state__free_unpacked(told, NULL);
}

static void bugreport_of_root_takes_a_session_of_root_first(void **state)
{
    (void)state;
    static struct service_consumer root; // its sessions end with the fixture
    uint64_t id;
    root = t.other;
    root.uid = root.payer = 0;
    struct service_clone_request request = {.for_bugreport = true};
    struct service_clone_result clone;
    enable(SOURCE "bugreport_score: 2000000000");
    assert_int_equal(service_clone(t.service, &t.other, &request, &clone, &t.err), -ENOENT);
    assert_non_null(strstr(t.err.text, "no session of this user"));
    assert_int_equal(service_clone(t.service, &root, &request, &clone, &t.err), 0);
    assert_int_equal(
        enable_with(&root, SOURCE "bugreport_score: 1 unique_session_name: 'root'", -1, true, &id),
        0);
    assert_int_equal(service_clone(t.service, &root, &request, &clone, &t.err), 0);
    Pb__TracingServiceState *told = service_query_state(t.service, true);
    assert_int_equal(told->n_tracing_sessions, 4);
    assert_string_equal(told->tracing_sessions[3]->unique_session_name, "root");
    pb__tracing_service_state__free_unpacked(told, NULL);
    clone_with(&request, 0); // the user's own session, not root's
}

static void snapshot_is_only_for_its_owner_and_root(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(enable_with(&t.other, SOURCE, -1, true, &id), 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EPERM);
    t.consumer.uid = t.consumer.payer = 0;
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
}

static void snapshot_counts_against_limits(void **state)
{
    (void)state;
    service_free(t.service);
    t.limits = (struct service_limits){.max_sessions = 3, .max_buffer_bytes = 2 * 68 << 10};
    make_service();
    uint64_t id = enable(SOURCE);
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -ENOSPC);
    service_free(t.service);
    t.limits = (struct service_limits){.max_sessions = 1};
    make_service();
    id = enable(SOURCE);
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions: there are 1 snapshots"));
}

static void buffers_move_or_are_emptied(void **state)
{
    (void)state;
    uint64_t id = enable("buffers { size_kb: 64 transfer_on_clone: true } "
                         "buffers { size_kb: 64 clear_before_clone: true } "
                         "data_sources { config { name: 'a' } } "
                         "data_sources { config { name: 'a' target_buffer: 1 } }");
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    // Two packets of the first source, and the packet of the second source's flush.
    assert_string_equal(read_letters(a), "...Z");
    uint64_t b = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    assert_string_equal(read_letters(b), "..Z");
    service_disable(t.service, id, NULL);
    // No packet of the first source before the last flush.
    assert_string_equal(read_letters(id), "...Z");
}

static void snapshot_of_a_file_is_a_file(void **state)
{
    (void)state;
    uint64_t id;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    assert_int_equal(enable_with(&t.consumer, SOURCE "write_into_file: true", dup(fd), true, &id),
                     0);
    pass(6 * NSEC_PER_SEC);
    off_t written = lseek(fd, 0, SEEK_END);
    assert_true(written > 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EINVAL);
    int given = dup(copy);
    clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &given}, 0);
    assert_int_equal(given, -1);
    assert_int_equal(lseek(copy, 0, SEEK_END), 0);
    pass(0);
    assert_string_equal(t.diary, "1 started, 2 ended 0");
    static uint8_t a[65536], b[65536];
    assert_true(lseek(copy, 0, SEEK_END) > written);
    assert_int_equal(pread(fd, a, sizeof(a), 0), written);
    assert_true(pread(copy, b, sizeof(b), 0) > written);
    assert_memory_equal(a, b, (size_t)written);
    assert_int_equal(service_read_begin(t.service, id, &t.err), -EINVAL);
    close(fd);
    close(copy);
    // The snapshot of any other session may go into a file.
    copy = memfd_create("copy", MFD_CLOEXEC);
    given = dup(copy);
    id = enable(SOURCE);
    uint64_t clone = clone_with(
        &(struct service_clone_request){.session_id = id, .output_fd = &given, .into_file = true},
        0);
    assert_int_equal(given, -1);
    pass(0);
    assert_true(lseek(copy, 0, SEEK_END) > 200);
    close(copy);
    service_destroy(t.service, clone);
}

// Starts a session that has written `size` bytes into its file, after 1000 bytes of other data.
// Returns its id.
static uint64_t write_much(int fd, off_t size)
{
    static const char others[1000];
    uint64_t id;
    packet_bytes = 100000;
    assert_int_equal(write(fd, others, sizeof(others)), sizeof(others));
    assert_int_equal(
        enable_with(&t.consumer,
                    "buffers { size_kb: 4096 } data_sources { config { name: 'a' } } "
                    "write_into_file: true file_write_period_ms: 100 flush_period_ms: 10",
                    dup(fd), true, &id),
        0);
    while (lseek(fd, 0, SEEK_END) < size)
        pass(NSEC_PER_SEC / 10);
    return id;
}

static void snapshot_is_written_a_slice_at_a_time(void **state)
{
    (void)state;
    const off_t size = 4 << 20;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    uint64_t id = write_much(fd, size);
    off_t written = lseek(fd, 0, SEEK_END) - 1000, last = 0, longest = 0;
    int given = dup(copy);
    uint64_t clone =
        clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &given}, 0);
    while (service_session_state(t.service, clone) != SESSION_DONE) {
        service_run_due(t.service);
        off_t now = lseek(copy, 0, SEEK_END);
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    assert_in_range(longest, 1, 512 << 10);
    assert_true(last > written);
    uint8_t *a = malloc((size_t)written), *b = malloc((size_t)written);
    assert_int_equal(pread(fd, a, (size_t)written, 1000), written);
    assert_int_equal(pread(copy, b, (size_t)written, 0), written);
    assert_memory_equal(a, b, (size_t)written);
    free(a);
    free(b);
    assert_non_null(strstr(t.diary, "2 ended 0"));
    close(fd);
    close(copy);
}

static void snapshot_in_a_file_outlives_whoever_asked(void **state)
{
    (void)state;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    uint64_t id = write_much(fd, 1 << 20);
    struct service_consumer client = t.other;
    client.uid = t.consumer.uid;
    client.payer = t.consumer.payer;
    for (int i = 0; i < 2; i++) {
        struct service_clone_result result;
        int given = dup(copy);
        struct service_clone_request request = {.session_id = id, .output_fd = &given};
        assert_int_equal(ftruncate(copy, 0), 0);
        lseek(copy, 0, SEEK_SET);
        assert_int_equal(service_clone(t.service, &client, &request, &result, &t.err), 0);
        service_consumer_gone(t.service, &client);
        assert_int_equal(service_destroy(t.service, result.session_id), -ESRCH);
        if (i == 0)
            pass(NSEC_PER_MSEC);
        else
            t.service = service_free(t.service); // as at the end of the daemon
        assert_true(lseek(copy, 0, SEEK_END) > 1 << 20);
    }
    assert_null(strstr(t.diary, "2 ended"));
    close(fd);
    close(copy);
}

static void snapshot_for_a_pipe_waits_for_its_reader(void **state)
{
    (void)state;
    int fd = memfd_create("trace", MFD_CLOEXEC), pipe_fds[2];
    uint64_t id = write_much(fd, 1 << 20);
    off_t written = lseek(fd, 0, SEEK_END) - 1000, got = 0;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    uint64_t clone =
        clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &pipe_fds[1]}, 0);
    pass(NSEC_PER_SEC); // without a reader, the snapshot is not done
    assert_int_equal(service_session_state(t.service, clone), SESSION_STOPPING);
    static uint8_t bytes[65536];
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(pipe_fds[0], bytes, sizeof(bytes))) != 0; pass(NSEC_PER_SEC / 50))
        got += n > 0 ? n : 0;
    assert_true(got > written);
    assert_int_equal(service_session_state(t.service, clone), SESSION_DONE);
    close(pipe_fds[0]);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(snapshot_holds_what_there_is),
        TEST(snapshot_of_a_waiting_session_is_readable),
        TEST(bugreport_takes_the_highest_score),
        TEST(bugreport_of_root_takes_a_session_of_root_first),
        TEST(snapshot_is_only_for_its_owner_and_root),
        TEST(snapshot_counts_against_limits),
        TEST(buffers_move_or_are_emptied),
        TEST(snapshot_of_a_file_is_a_file),
        TEST(snapshot_is_written_a_slice_at_a_time),
        TEST(snapshot_in_a_file_outlives_whoever_asked),
        TEST(snapshot_for_a_pipe_waits_for_its_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
