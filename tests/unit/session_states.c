// SPDX-License-Identifier: Apache-2.0
//
// The states of a session, and their changes by arming, starting, triggers, time and stopping.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/elements.h"
#include "tests/unit/session_fixture.h"

#define TRIGGERS(mode)                                                                             \
    TWO_SOURCES "trigger_config { trigger_mode: " mode " trigger_timeout_ms: 10000 "               \
                "triggers { name: 't' stop_delay_ms: 2000 } }"
#define PLAIN_CONFIG TWO_SOURCES "duration_ms: 10000"
#define START_CONFIG TRIGGERS("START_TRACING")
#define STOP_CONFIG  TRIGGERS("STOP_TRACING")
#define CLONE_CONFIG TRIGGERS("CLONE_SNAPSHOT")

// a arm, s start, t trigger, x stop, q abort, w work that is due now, . one second.
static void step(struct test *t, char what)
{
    const struct service_trigger_hit hit = {
        .name = "t", .producer_name = "p", .time = fake_time.boot, .stop_delay_ms = 2000};
    switch (what) {
    case 'a':
        assert_int_equal(session_arm(t->session, &t->err), 0);
        break;
    case 's':
        start(t);
        break;
    case 't':
        session_trigger(t->session, &hit);
        break;
    case 'x':
        session_stop(t->session);
        break;
    case 'q':
        session_abort(t->session);
        break;
    default:
        pass(t, what == '.' ? NSEC_PER_SEC : 0);
    }
}

static void every_transition(void **state)
{
    (void)state;
    static const struct {
        const char *config, *steps;
        enum session_state state;
        int result, n_started, n_clones;
        bool has_file; // the file has content
    } rows[] = {
        {PLAIN_CONFIG, "", SESSION_CONFIGURED, 0, 0, 0, false},
        {PLAIN_CONFIG, "x", SESSION_DONE, 0, 0, 0, false},
        {PLAIN_CONFIG, "q", SESSION_DONE, 0, 0, 0, false},
        {PLAIN_CONFIG, "t", SESSION_CONFIGURED, 0, 0, 0, false},
        {PLAIN_CONFIG, "s", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "st..", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "s.........", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "s..........", SESSION_DONE, 0, 1, 0, true},
        {PLAIN_CONFIG, "sx", SESSION_STOPPING, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxx", SESSION_STOPPING, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxw", SESSION_DONE, 0, 1, 0, true},
        {PLAIN_CONFIG, "sq", SESSION_DONE, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxq", SESSION_DONE, 0, 1, 0, false},

        {START_CONFIG, "t", SESSION_CONFIGURED, 0, 0, 0, false},
        {START_CONFIG, "a", SESSION_ARMED, 0, 0, 0, false},
        {START_CONFIG, "a.........", SESSION_ARMED, 0, 0, 0, false},
        {START_CONFIG, "a..........", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "ax", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "aq", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "at", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "at.", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "at..", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "at.t.", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "a.........t.", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "atx", SESSION_STOPPING, 0, 1, 0, false},
        {START_CONFIG, "atxw", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "atq", SESSION_DONE, 0, 1, 0, false},
        {START_CONFIG, "as", SESSION_STARTED, 0, 1, 0, false},
        {START_CONFIG, "as............", SESSION_STARTED, 0, 1, 0, false},
        {START_CONFIG, "asx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {START_CONFIG, "ast...", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "astxw", SESSION_DONE, 0, 1, 0, true},

        {STOP_CONFIG, "s.........", SESSION_STARTED, 0, 1, 0, false},
        {STOP_CONFIG, "s..........", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "sx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "sq", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "s.........t.", SESSION_TRIGGERED, 0, 1, 0, false},
        {STOP_CONFIG, "s.........t..", SESSION_DONE, 0, 1, 0, true},
        {STOP_CONFIG, "st.t.", SESSION_DONE, 0, 1, 0, true},
        {STOP_CONFIG, "stx", SESSION_STOPPING, 0, 1, 0, false},
        {STOP_CONFIG, "stxw", SESSION_DONE, 0, 1, 0, true},

        {CLONE_CONFIG, "st.", SESSION_STARTED, 0, 1, 0, false},
        {CLONE_CONFIG, "st.t.", SESSION_STARTED, 0, 1, 1, false},
        {CLONE_CONFIG, "st.t..", SESSION_STARTED, 0, 1, 2, false},
        {CLONE_CONFIG, "st........t..", SESSION_DONE, SESSION_E_NO_TRACE, 1, 2, false},
        {CLONE_CONFIG, "stx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 1, false},
        {CLONE_CONFIG, "st.tx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 2, false},
        {CLONE_CONFIG, "stx..", SESSION_DONE, SESSION_E_NO_TRACE, 1, 1, false},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        struct test t;
        assert_int_equal(make(&t, rows[i].config), 0);
        with_file(&t);
        for (const char *p = rows[i].steps; *p; p++)
            step(&t, *p);
        bool fits = session_get_state(t.session) == rows[i].state &&
                    session_result(t.session, NULL) == rows[i].result &&
                    t.n_started == rows[i].n_started && t.n_all_started == t.n_started &&
                    t.n_clones == rows[i].n_clones &&
                    t.n_ended == (rows[i].state == SESSION_DONE) &&
                    (*file_letters(&t) != '\0') == rows[i].has_file;
        if (!fits)
            fail_msg("%s \"%s\": state %d, result %d, started %d, all started %d, clones %d, "
                     "ended %d, file %s",
                     rows[i].config, rows[i].steps, (int)session_get_state(t.session),
                     session_result(t.session, NULL), t.n_started, t.n_all_started, t.n_clones,
                     t.n_ended, file_letters(&t));
        done(&t);
    }
}

static void armed_session_touches_nothing(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, START_CONFIG "write_into_file: true flush_period_ms: 10 "
                                           "incremental_state_config { clear_period_ms: 10 }"),
                     0);
    with_file(&t);
    step(&t, 'a');
    // The session has nothing else to do until then.
    assert_int_equal(session_next_due(t.session), fake_time.boot + 10 * NSEC_PER_SEC);
    assert_int_equal(session_arm(t.session, &t.err), -EINVAL);
    assert_string_equal(diary, "open a, open b");
    step(&t, 't');
    assert_string_equal(diary, "open a, open b, start a, start b");
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    const char *letters = file_letters(&t);
    assert_memory_equal(letters, "CYTUItsS", 8);
    assert_int_equal(session_arm(t.session, &t.err), -EINVAL);
    done(&t);
}

static void delays_leave_out_sleep(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, STOP_CONFIG), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_TRIGGERED);
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 0);
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 1);
    done(&t);
    assert_int_equal(make(&t, STOP_CONFIG "prefer_suspend_clock_for_duration: true"), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
}

static void too_many_snapshots_at_a_time_are_left_out(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    for (int i = 0; i < 20; i++)
        step(&t, 't');
    const char *told = strstr(t.log, "too many triggers");
    assert_non_null(told);
    assert_null(strstr(told + 1, "too many triggers")); // one message for all
    pass(&t, 3 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 16);
    step(&t, 't');
    pass(&t, 3 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 17);
    done(&t);
}

static void fire(struct test *t, unsigned uid, uint32_t stop_delay_ms)
{
    const struct service_trigger_hit hit = {.name = "t",
                                            .producer_name = "p",
                                            .producer_uid = uid,
                                            .time = fake_time.boot,
                                            .stop_delay_ms = stop_delay_ms};
    session_trigger(t->session, &hit);
}

// Strangers get a quarter of the 16 snapshots that may wait at a time. Root and the program's own
// user get all.
static void strangers_leave_snapshots_to_others(void **state)
{
    (void)state;
    enum { STRANGER = 4000, SELF = 65534 };
    struct test t;
    uid_t before = geteuid();
    if (before == 0)
        assert_int_equal(seteuid(SELF), 0);
    uid_t self = geteuid();
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; round == 1 && i < 6; i++)
            fire(&t, STRANGER, 2000);
        for (int i = 0; i < 3; i++) {
            fire(&t, 0, 1000);
            fire(&t, self, 1000);
        }
        for (int i = 0; round == 2 && i < 6; i++) // the strangers come last
            fire(&t, STRANGER, 2000);
        pass(&t, NSEC_PER_SEC);
        assert_int_equal(t.n_clones, 10 * round - 4);
        fire(&t, STRANGER, 1000); // four of them still wait
        pass(&t, NSEC_PER_SEC);
        assert_int_equal(t.n_clones, 10 * round);
    }
    for (int i = 0; i < 10; i++) {
        fire(&t, 0, 1000);
        fire(&t, self, 1000);
    }
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 20 + 16);
    done(&t);
    assert_int_equal(seteuid(before), 0);
}

static void snapshots_come_in_the_order_of_their_times(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    fire(&t, 0, 5000);
    fire(&t, 0, 1000);
    fire(&t, 0, 3000);
    fire(&t, 0, 2000);
    pass(&t, 2500 * NSEC_PER_MSEC);
    assert_string_equal(t.clone_delays, " 1000 2000");
    pass(&t, 2500 * NSEC_PER_MSEC);
    assert_string_equal(t.clone_delays, " 1000 2000 3000 5000");
    for (int i = 0; i < 16; i++)
        step(&t, 't');
    session_stop(t.session); // makes them all
    assert_int_equal(t.n_clones, 4 + 16);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
}

static void a_snapshot_may_end_the_session(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    step(&t, 't');
    step(&t, 't');
    t.abort_at_clone = true;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 1);
    assert_int_equal(t.n_ended, 1);
    assert_int_equal(session_next_due(t.session), NSEC_MAX);
    done(&t);
}

static void no_delay_ends_stop_tracing_only(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, STOP_CONFIG), 0);
    start(&t);
    fire(&t, 0, 0);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, NULL), 0);
    done(&t);
    assert_int_equal(make(&t, START_CONFIG), 0);
    step(&t, 'a');
    fire(&t, 0, 0);
    pass(&t, 1000 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_TRIGGERED);
    assert_int_equal(session_end_due(t.session), NSEC_MAX);
    done(&t);
}

// The result is the failure of the sources, not the lack of a trace.
static void a_trigger_that_starts_nothing_ends_the_session(void **state)
{
    (void)state;
    struct test t;
    failing_start = "ab";
    assert_int_equal(make(&t, START_CONFIG), 0);
    step(&t, 'a');
    step(&t, 't');
    failing_start = NULL;
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, &t.err), -ENODEV);
    assert_string_equal(t.err.text, "nothing is left to record");
    assert_int_equal(t.n_started, 0);
    assert_int_equal(t.n_ended, 1);
    done(&t);
}

static void only_start_tracing_can_be_armed(void **state)
{
    (void)state;
    static const char *const configs[] = {PLAIN_CONFIG, STOP_CONFIG, CLONE_CONFIG};
    struct test t;
    for (size_t i = 0; i < ELEMENTS(configs); i++) {
        assert_int_equal(make(&t, configs[i]), 0);
        assert_int_equal(session_arm(t.session, &t.err), -EINVAL);
        assert_int_equal(session_get_state(t.session), SESSION_CONFIGURED);
        done(&t);
    }
}

// A file that is written each period stays empty before the trigger.
static void periods_write_nothing_without_a_trigger(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, STOP_CONFIG "write_into_file: true file_write_period_ms: 100"), 0);
    with_file(&t);
    start(&t);
    pass(&t, NSEC_PER_SEC);
    assert_string_equal(file_letters(&t), "");
    step(&t, 't');
    pass(&t, NSEC_PER_SEC);
    assert_true(*file_letters(&t));
    done(&t);
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 100"), 0);
    start(&t); // without a file
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_STARTED);
    done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transition),
        cmocka_unit_test(armed_session_touches_nothing),
        cmocka_unit_test(delays_leave_out_sleep),
        cmocka_unit_test(too_many_snapshots_at_a_time_are_left_out),
        cmocka_unit_test(strangers_leave_snapshots_to_others),
        cmocka_unit_test(snapshots_come_in_the_order_of_their_times),
        cmocka_unit_test(a_snapshot_may_end_the_session),
        cmocka_unit_test(no_delay_ends_stop_tracing_only),
        cmocka_unit_test(a_trigger_that_starts_nothing_ends_the_session),
        cmocka_unit_test(only_start_tracing_can_be_armed),
        cmocka_unit_test(periods_write_nothing_without_a_trigger),
    };
    return cmocka_run_group_tests_name("session_states", tests, NULL, NULL);
}
