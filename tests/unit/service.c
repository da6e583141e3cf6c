// SPDX-License-Identifier: Apache-2.0
//
// The life of sessions in the service: starts, triggers, limits, names, files. Snapshots are in
// service_clone.c.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/service/service_private.h"
#include "tests/unit/service_fixture.h"
#include "tests/unit/service_list.h"

static void plain_session_starts_ends_and_is_read(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_string_equal(t.diary, "1 started");
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_string_equal(read_letters(id), "..Z");
    assert_string_equal(read_letters(id), "Z");
    assert_int_equal(service_destroy(t.service, id), 0);
    assert_int_equal(service_destroy(t.service, id), -ESRCH);
    assert_int_equal(service_start(t.service, id, &t.err), -ESRCH);
}

static void deferred_session_waits_for_its_start(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(enable_with(&t.consumer, SOURCE "duration_ms: 1000", -1, false, &id), 0);
    assert_int_equal(n_running, 0);
    pass(10 * NSEC_PER_SEC);
    assert_int_equal(service_start(t.service, id, &t.err), 0);
    assert_int_equal(service_start(t.service, id, &t.err), -EALREADY);
    pass(NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "1 started");
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
}

static void start_trigger_starts(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("START_TRACING", "triggers { name: 't' stop_delay_ms: 2000 }"));
    assert_int_equal(n_running, 0);
    assert_int_equal(service_next_due(t.service), fake_time.boot + 60 * NSEC_PER_SEC);
    pass(30 * NSEC_PER_SEC);
    assert_int_equal(fire("unknown"), 0);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(n_running, 1);
    assert_string_equal(t.diary, "1 started");
    pass(NSEC_PER_SEC);
    assert_int_equal(fire("t"), 0); // writes its packet, without another effect
    pass(NSEC_PER_SEC - 1);
    assert_int_equal(n_running, 1);
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_int_equal(fire("t"), 0);
    assert_string_equal(read_letters(id), "tt..Z");
}

static void stop_trigger_stops(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' stop_delay_ms: 2000 } "
                                                  "triggers { name: 'u' stop_delay_ms: 1 }"));
    assert_string_equal(read_letters(id), "");
    pass(59 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("u"), 0); // the delay of the first trigger counts
    pass(2 * NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "1 started");
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_string_equal(read_letters(id), "tt..Z");
}

static void without_a_trigger_no_trace(void **state)
{
    (void)state;
    uint64_t a = enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    uint64_t b = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    pass(60 * NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "2 started");
    pass(1);
    assert_string_equal(t.diary, "2 started, 1 ended 1, 2 ended 1");
    assert_string_equal(read_letters(a), "");
    assert_string_equal(read_letters(b), "");
}

static void timeouts_leave_out_sleep(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    enable(TRIGGERS("START_TRACING",
                    "triggers { name: 't' }") "prefer_suspend_clock_for_duration: true");
    fake_time.asleep = 20 * NSEC_PER_SEC;
    pass(60 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "2 ended 1");
    pass(20 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "2 ended 1, 1 ended 1");
}

static void clone_trigger_orders_snapshots(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' stop_delay_ms: 2000 } "
                                                    "triggers { name: 'u' stop_delay_ms: 500 }"));
    assert_int_equal(fire("t"), 1);
    pass(NSEC_PER_SEC);
    assert_int_equal(fire("u"), 1);
    assert_int_equal(fire("t"), 1);
    pass(10 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone u, 1 clone t, 1 clone t");
    assert_string_equal(read_letters(id), "");
    pass(49 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone u, 1 clone t, 1 clone t, 1 ended 1");
}

static void stop_may_mean_clone(void **state)
{
    (void)state;
    enable(
        TRIGGERS("STOP_TRACING", "use_clone_snapshot_if_available: true triggers { name: 't' }"));
    assert_int_equal(fire("t"), 1);
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone t");
}

static void rules_select_triggers(void **state)
{
    (void)state;
    enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' producer_name_regex: 'pro|producer' } "
                                      "triggers { name: 'u' producer_name_regex: 'pro' } "
                                      "triggers { name: 'v' skip_probability: 0.5 }"));
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("u"), 0);
    assert_int_equal(service_activate_trigger(t.service, "u", "pro", 0, 0).acted, 1);
    assert_int_equal(fire("v"), 1);
    t.random = 0.49;
    assert_int_equal(fire("v"), 0);
    uint64_t id;
    assert_int_equal(
        enable_with(&t.consumer,
                    TRIGGERS("STOP_TRACING", "triggers { name: 't' producer_name_regex: '(' }"), -1,
                    true, &id),
        -EINVAL);
    assert_non_null(strstr(t.err.text, "trigger_config.triggers[0].producer_name_regex"));
}

// Others may fire triggers that no rule of the author asks for.
static void an_author_pays_for_matches_only(void **state)
{
    (void)state;
    t.consumer.requester.is_limited = true;
    uint64_t id =
        enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 'a' } "
                                          "triggers { name: 'b' producer_name_regex: 'p' }"));
    const struct loop_share *share = &find(t.service, id)->share->matching;
    for (int i = 0; i < 1000; i++) {
        struct service_trigger_result result =
            service_activate_trigger(t.service, i % 2 ? "a" : "b", "p", 7, 7);
        assert_int_equal(result.sessions, 1);
        assert_int_equal(result.held_back, i >= 5); // 10 triggers at once of a user
        fire("unknown");
        if (i == 0)
            assert_true(share->free_at > 0);
        if (i == 10)
            find(t.service, id)->share->matching.free_at = 0;
    }
    assert_int_equal(share->free_at, 0);
}

static void limit_per_day_survives_a_restart(void **state)
{
    (void)state;
    static const char config[] =
        SOURCE "trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000000 "
               "triggers { name: 't' max_per_24_h: 2 } }";
    service_free(t.service);
    strcpy(t.state_dir, "/tmp/mmtrace-unit-XXXXXX");
    assert_non_null(mkdtemp(t.state_dir));
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 1);
    pass(12 * 3600 * NSEC_PER_SEC);
    service_free(t.service);
    // The machine was booted anew.
    fake_time.real += fake_time.boot - 5 * NSEC_PER_SEC;
    fake_time.boot = 5 * NSEC_PER_SEC;
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("t"), 0);
    // The first trigger is forgotten, the second is not.
    pass(12 * 3600 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("t"), 0);
    // A clock that is set back does not make the limit eternal.
    service_free(t.service);
    fake_time.real -= 1000 * 3600 * NSEC_PER_SEC;
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 0);
    pass(24 * 3600 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
}

static void failing_start_by_trigger_ends(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    start_fails = true;
    fire("t");
    assert_string_equal(t.diary, "1 ended -5");
}

static void config_fires_its_own_triggers(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' stop_delay_ms: 1000 }"));
    enable(SOURCE "activate_triggers: 't'");
    assert_string_equal(t.diary, "2 started, 1 started");
}

static void limits_are_named(void **state)
{
    (void)state;
    service_free(t.service);
    t.limits = (struct service_limits){
        .max_sessions = 4,
        .max_sessions_per_uid = 2,
        .max_buffer_bytes = 2 << 20,
        .max_buffer_bytes_per_uid = 512 << 10,
    };
    make_service();
    uint64_t id;
    assert_int_equal(enable_with(&t.consumer, "buffers { size_kb: 513 }", -1, true, &id), -ENOSPC);
    assert_non_null(strstr(t.err.text, "max_buffer_bytes_per_uid"));
    assert_int_equal(enable_with(&t.consumer,
                                 "buffers { size_kb: 516 } "
                                 "guardrail_overrides { max_tracing_buffer_size_kb: 600 }",
                                 -1, true, &id),
                     0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 509 }", -1, true, &id), -ENOSPC);
    assert_non_null(strstr(t.err.text, "max_buffer_bytes:"));
    assert_non_null(strstr(t.err.text, "of users other than root"));
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions_per_uid"));
    const char *small = "buffers { size_kb: 4 } "
                        "guardrail_overrides { max_tracing_buffer_size_kb: 600 }";
    assert_int_equal(enable_with(&t.consumer, small, -1, true, &id), 0);
    assert_int_equal(enable_with(&t.consumer, small, -1, true, &id), -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions:"));
    // Root has all the sessions and all the memory for itself.
    static struct service_consumer root; // its sessions end with the fixture
    root = t.other;
    root.uid = root.payer = 0;
    assert_int_equal(enable_with(&root, "buffers { size_kb: 2032 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&root, "buffers { size_kb: 20 }", -1, true, &id), -ENOSPC);
    for (int i = 0; i < 3; i++)
        assert_int_equal(enable_with(&root, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&root, "buffers { size_kb: 4 }", -1, true, &id), -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions:"));
}

static void a_config_of_a_user_is_small(void **state)
{
    (void)state;
    char text[sizeof(SOURCE) + 511 * sizeof("session_semaphores {}")] = SOURCE;
    struct config config = {0};
    struct service_consumer user = t.consumer;
    for (int i = 0; i < 511; i++)
        strcat(text, "session_semaphores {}");
    assert_int_equal(config_load("test", text, strlen(text), CONFIG_FORMAT_TEXT, &config, &t.err),
                     0);
    assert_int_equal(service_check_size(config.trace, &user, &t.err), 0);
    user.requester.is_limited = true;
    assert_int_equal(service_check_size(config.trace, &user, &t.err), -E2BIG);
    assert_non_null(strstr(t.err.text, "no more than 512"));
    config_done(&config);
}

static void one_user_has_many_uids(void **state)
{
    (void)state;
    static struct service_consumer user; // its sessions end with the fixture
    uint64_t id;
    user = t.consumer;
    user.uid++;
    service_free(t.service);
    t.limits = (struct service_limits){.max_sessions_per_uid = 2};
    make_service();
    assert_int_equal(enable_with(&t.consumer, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&user, "buffers { size_kb: 4 }", -1, true, &id), 0);
    user.uid++;
    assert_int_equal(enable_with(&user, "buffers { size_kb: 4 }", -1, true, &id), -EMFILE);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
}

static void unique_names_and_semaphores(void **state)
{
    (void)state;
    uint64_t id, named = enable(SOURCE "unique_session_name: 'n'");
    assert_int_equal(enable_with(&t.other, SOURCE "unique_session_name: 'n'", -1, true, &id),
                     -EEXIST);
    service_destroy(t.service, named);
    assert_int_equal(enable_with(&t.other, SOURCE "unique_session_name: 'n'", -1, true, &id), 0);
    named = enable(SOURCE "session_semaphores { name: 's' max_other_session_count: 5 }");
    assert_int_equal(
        enable_with(&t.other, SOURCE "session_semaphores { name: 's' }", -1, true, &id), -EBUSY);
    assert_non_null(strstr(t.err.text, "session_semaphores"));
    service_disable(t.service, named, NULL);
    assert_int_equal(
        enable_with(&t.other, SOURCE "session_semaphores { name: 's' }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.consumer,
                                 SOURCE
                                 "session_semaphores { name: 's' max_other_session_count: 5 }",
                                 -1, true, &id),
                     -EBUSY);
}

static void names_of_others_keep_root_from_nothing(void **state)
{
    (void)state;
    static struct service_consumer root; // its sessions end with the fixture
    const char *taken = SOURCE "unique_session_name: 'n' session_semaphores { name: 's' }";
    uint64_t id, others = enable(taken);
    root = t.other;
    root.uid = root.payer = 0;
    assert_int_equal(enable_with(&root, taken, -1, true, &id), 0);
    assert_int_equal(enable_with(&root, taken, -1, true, &id), -EEXIST);
    struct service_clone_request by_name = {.unique_session_name = "n"};
    struct service_clone_result clone;
    assert_int_equal(service_clone(t.service, &root, &by_name, &clone, &t.err), 0);
    assert_int_equal(service_clone(t.service, &t.consumer, &by_name, &clone, &t.err), 0);
    service_destroy(t.service, others);
    assert_int_equal(enable_with(&t.consumer, taken, -1, true, &id), -EEXIST);
}

static void exclusive_session_is_alone(void **state)
{
    (void)state;
    uint64_t id;
    enable(SOURCE);
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), -EPERM);
    t.consumer.uid = t.consumer.payer = 0;
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), 0);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 started");
    assert_string_equal(read_letters(1), "..Z");
    assert_int_equal(enable_with(&t.consumer, SOURCE, -1, true, &id), -EBUSY);
    assert_non_null(strstr(t.err.text, "exclusive_prio"));
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), -EBUSY);
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 3", -1, true, &id), 0);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 started, 2 ended 0, 3 started");
    service_disable(t.service, id, NULL);
    enable(SOURCE);
}

static void detached_session_outlives_its_consumer(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000"), got;
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    uint64_t gone = enable(SOURCE);
    service_consumer_gone(t.service, &t.consumer);
    assert_int_equal(service_flush(t.service, gone, &t.err), -ESRCH);
    pass(NSEC_PER_SEC / 2);
    assert_string_equal(t.diary, "1 started, 2 started");
    assert_int_equal(service_attach(t.service, &t.other, "key", &got, &t.err), -ENOENT);
    t.other.uid = t.consumer.uid;
    t.other.payer = t.consumer.payer;
    assert_int_equal(service_attach(t.service, &t.other, "key", &got, &t.err), 0);
    assert_int_equal(got, id);
    assert_int_equal(service_disable(t.service, id, &t.err), 0);
    assert_string_equal(t.diary, "1 started, 2 started, 1 ended 0");
    assert_string_equal(read_letters(id), "..Z");
}

static void session_may_be_destroyed_while_it_speaks(void **state)
{
    (void)state;
    t.destroy_on_end = enable(SOURCE "duration_ms: 10");
    pass(NSEC_PER_SEC);
    assert_int_equal(n_open, 0);
    t.destroy_on_end = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' }"));
    assert_int_equal(fire("t"), 2);
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary,
                        "1 started, 1 ended 0, 2 started, 3 started, 2 ended 0, 3 clone t");
}

static void file_gets_everything_at_the_end(void **state)
{
    (void)state;
    uint64_t id;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(enable_with(&t.consumer, SOURCE "duration_ms: 10", dup(fd), true, &id), 0);
    pass(NSEC_PER_SEC);
    assert_true(lseek(fd, 0, SEEK_END) > 200);
    close(fd);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(
        enable_with(&t.consumer,
                    TRIGGERS("START_TRACING", "triggers { name: 't' }") "write_into_file: true",
                    dup(fd), true, &id),
        0);
    pass(60 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 ended 1");
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    close(fd);
}

static void file_outlives_its_consumer(void **state)
{
    (void)state;
    static const char config[] = SOURCE "write_into_file: true unique_session_name: 'n'";
    uint64_t id;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("trace", MFD_CLOEXEC);
        assert_int_equal(enable_with(&t.consumer, config, dup(fds[i]), true, &id), 0);
        assert_int_equal(lseek(fds[i], 0, SEEK_END), 0);
        if (i == 0)
            service_consumer_gone(t.service, &t.consumer);
        if (i == 1)
            assert_int_equal(service_destroy(t.service, id), 0);
        if (i < 2)
            assert_int_equal(service_flush(t.service, id, NULL), -ESRCH);
    }
    Pb__TracingServiceState *told = service_query_state(t.service, true);
    assert_int_equal(told->n_tracing_sessions, 3);
    assert_string_equal(told->tracing_sessions[0]->details->state, "leaving");
    pb__tracing_service_state__free_unpacked(told, NULL);
    assert_int_equal(n_running, 1);
    pass(1);
    told = service_query_state(t.service, true);
    assert_int_equal(told->n_tracing_sessions, 1);
    pb__tracing_service_state__free_unpacked(told, NULL);
    t.service = service_free(t.service);
    for (int i = 0; i < 3; i++) {
        assert_true(lseek(fds[i], 0, SEEK_END) > 200);
        close(fds[i]);
    }
    assert_string_equal(t.diary, "1 started, 2 started, 3 started");
}

static void output_path_is_made_and_unmade(void **state)
{
    (void)state;
    char path[64], config[512];
    uint64_t id;
    snprintf(path, sizeof(path), "/tmp/mmtrace-unit-%d.pftrace", (int)getpid());
    snprintf(config, sizeof(config),
             TRIGGERS("START_TRACING", "triggers { name: 't' }") "write_into_file: true "
                                                                 "output_path: '%s'",
             path);
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), -EPERM);
    t.consumer.uid = t.consumer.payer = 0;
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), -EEXIST);
    pass(60 * NSEC_PER_SEC);
    assert_int_equal(access(path, F_OK), -1);
}

static void state_is_reported(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000 unique_session_name: 'n' bugreport_score: 3");
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    Pb__TracingServiceState *told = service_query_state(t.service, false);
    assert_non_null(told);
    assert_int_equal(told->num_sessions, 2);
    assert_int_equal(told->num_sessions_started, 1);
    assert_int_equal(told->n_data_sources, 1);
    assert_string_equal(told->data_sources[0]->ds_descriptor->name, "a");
    assert_int_equal(told->n_tracing_sessions, 2);
    assert_string_equal(told->tracing_sessions[0]->state, "STARTED");
    assert_string_equal(told->tracing_sessions[0]->unique_session_name, "n");
    assert_int_equal(told->tracing_sessions[0]->buffer_size_kb[0], 64);
    assert_int_equal(told->tracing_sessions[0]->bugreport_score, 3);
    assert_string_equal(told->tracing_sessions[1]->state, "CONFIGURED");
    pb__tracing_service_state__free_unpacked(told, NULL);
    told = service_query_state(t.service, true);
    assert_int_equal(told->n_data_sources, 0);
    pb__tracing_service_state__free_unpacked(told, NULL);
    Pb__TraceStats *stats = service_get_stats(t.service, id);
    assert_non_null(stats);
    assert_int_equal(stats->n_buffer_stats, 1);
    assert_int_equal(stats->buffer_stats[0]->chunks_written, 1);
    pb__trace_stats__free_unpacked(stats, NULL);
    assert_null(service_get_stats(t.service, 77));
}

static int change(uint64_t id, const char *text)
{
    struct config config = {0};
    assert_int_equal(config_load("test", text, strlen(text), CONFIG_FORMAT_TEXT, &config, &t.err),
                     0);
    int r = service_change_config(t.service, id, config.trace, &t.err);
    config_done(&config);
    return r;
}

static void only_filters_change(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_int_equal(change(id, "buffers { size_kb: 64 } data_sources { config { name: 'a' } "
                                "producer_name_filter: 'x' } duration_ms: 1000"),
                     0);
    assert_int_equal(n_running, 1); // the source goes on
    assert_int_equal(change(id, SOURCE "duration_ms: 1001"), -EINVAL);
    pass(NSEC_PER_SEC);
    assert_int_equal(change(id, SOURCE "duration_ms: 1000"), -EINVAL);
}

#define TWO_WITH(filter) SOURCE "data_sources { config { name: 'a' } " filter " }"

static void wider_filter_starts_a_source(void **state)
{
    (void)state;
    uint64_t id = enable(TWO_WITH("producer_name_filter: 'x'"));
    assert_int_equal(n_running, 1);
    assert_int_equal(change(id, TWO_WITH("producer_name_filter: 'y'")), 0);
    assert_int_equal(n_open, 1);
    assert_int_equal(change(id, TWO_WITH("producer_name_regex_filter: 'mm.*'")), 0);
    assert_int_equal(n_running, 2);
    assert_int_equal(
        change(id, TWO_WITH("producer_name_filter: 'x' producer_name_filter: 'mmtrace'")), 0);
    assert_int_equal(n_running, 2);
    service_disable(t.service, id, NULL);
    assert_string_equal(read_letters(id), "....Z"); // each at its start and at the end
    // A session that waits for a trigger has the source open, and starts it at the trigger.
    id = enable(
        TRIGGERS("START_TRACING",
                 "triggers { name: 't' stop_delay_ms: 1000 }") "data_sources { config { name: 'a' "
                                                               "} producer_name_filter: 'x' }");
    assert_int_equal(n_open, 3);
    assert_int_equal(
        change(id, TRIGGERS("START_TRACING",
                            "triggers { name: 't' stop_delay_ms: 1000 }") "data_sources { config { "
                                                                          "name: 'a' } }"),
        0);
    assert_int_equal(n_open, 4);
    assert_int_equal(n_running, 0);
    fire("t");
    assert_int_equal(n_running, 2);
}

static void detached_session_goes_with_its_end(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    service_consumer_gone(t.service, &t.consumer);
    pass(NSEC_PER_SEC / 2);
    assert_int_equal(service_attach(t.service, &t.consumer, "key", &id, &t.err), 0);
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    pass(NSEC_PER_SEC);
    assert_int_equal(service_list(t.service, NULL, 0), 0);
    assert_int_equal(service_attach(t.service, &t.consumer, "key", &id, &t.err), -ENOENT);
    // For each way to end a session.
    for (int i = 0; i < 3; i++) {
        int fd = memfd_create("trace", MFD_CLOEXEC);
        assert_int_equal(
            enable_with(&t.consumer, SOURCE "write_into_file: true", dup(fd), true, &id), 0);
        assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
        if (i == 0)
            assert_int_equal(service_destroy(t.service, id), 0);
        else if (i == 1)
            assert_int_equal(service_disable(t.service, id, &t.err), 0);
        else
            t.service = service_free(t.service);
        if (t.service)
            pass(NSEC_PER_SEC);
        assert_true(lseek(fd, 0, SEEK_END) > 0);
        close(fd);
    }
    make_service();
    // A session that ended while it was attached is destroyed when it is detached.
    id = enable(SOURCE "duration_ms: 1000");
    pass(NSEC_PER_SEC);
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    assert_int_equal(service_list(t.service, NULL, 0), 0);
}

static void name_of_an_empty_file_is_looked_at_once(void **state)
{
    (void)state;
    char dir[] = "/tmp/mmtrace-test-XXXXXX", path[64], text[512];
    uint64_t first, second;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/trace", dir);
    snprintf(text, sizeof(text),
             TRIGGERS("START_TRACING",
                      "triggers { name: 't' }") "write_into_file: true output_path: '%s'",
             path);
    t.consumer.uid = t.consumer.payer = 0;
    assert_int_equal(enable_with(&t.consumer, text, -1, true, &first), 0);
    assert_int_equal(access(path, F_OK), 0);
    service_destroy(t.service, first);
    assert_int_equal(access(path, F_OK), -1);
    // Another session makes the file again before the memory of the first session is released.
    assert_int_equal(enable_with(&t.consumer, text, -1, true, &second), 0);
    service_run_due(t.service);
    assert_int_equal(access(path, F_OK), 0);
    service_destroy(t.service, second);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_session_starts_ends_and_is_read),
        TEST(deferred_session_waits_for_its_start),
        TEST(start_trigger_starts),
        TEST(stop_trigger_stops),
        TEST(without_a_trigger_no_trace),
        TEST(timeouts_leave_out_sleep),
        TEST(clone_trigger_orders_snapshots),
        TEST(stop_may_mean_clone),
        TEST(rules_select_triggers),
        TEST(an_author_pays_for_matches_only),
        TEST(limit_per_day_survives_a_restart),
        TEST(failing_start_by_trigger_ends),
        TEST(config_fires_its_own_triggers),
        TEST(limits_are_named),
        TEST(one_user_has_many_uids),
        TEST(unique_names_and_semaphores),
        TEST(names_of_others_keep_root_from_nothing),
        TEST(a_config_of_a_user_is_small),
        TEST(exclusive_session_is_alone),
        TEST(detached_session_outlives_its_consumer),
        TEST(session_may_be_destroyed_while_it_speaks),
        TEST(file_gets_everything_at_the_end),
        TEST(file_outlives_its_consumer),
        TEST(output_path_is_made_and_unmade),
        TEST(state_is_reported),
        TEST(only_filters_change),
        TEST(wider_filter_starts_a_source),
        TEST(detached_session_goes_with_its_end),
        TEST(name_of_an_empty_file_is_looked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
