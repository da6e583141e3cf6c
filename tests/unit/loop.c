// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static struct loop *make_loop(void)
{
    struct loop *loop;
    assert_int_equal(loop_new(&loop), 0);
    return loop;
}

struct calls {
    struct loop *loop;
    unsigned n;
    nsec_t due;
    uint64_t n_due;
    struct loop_timer *timer, *other_timer;
    struct loop_io *io;
};

static void count_timer(void *userdata)
{
    struct calls *calls = userdata;
    calls->n++;
    calls->due = loop_get_call(calls->loop)->due;
    calls->n_due = loop_get_call(calls->loop)->n_due;
}

static void count_io(void *userdata)
{
    struct calls *calls = userdata;
    assert_true(loop_get_call(calls->loop)->events & EPOLLIN);
    calls->n++;
}

static void missed_ticks_come_as_one_call(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    struct calls calls = {.loop = loop};
    nsec_t period = 10 * NSEC_PER_SEC;
    nsec_t first = nsec_now(CLOCK_BOOTTIME) - 10 * period - NSEC_PER_SEC;
    struct loop_timer *timer;
    assert_int_equal(loop_add_timer(loop, first, period, count_timer, &calls, &timer), 0);
    assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_int_equal(calls.n, 1);
    assert_int_equal(calls.n_due, 11);
    assert_int_equal(calls.due, first + 10 * period);
    assert_int_equal(loop_run_once(loop, 0), 0);
    assert_int_equal(calls.n, 1);
    timer = loop_remove_timer(timer);
    loop_free(loop);
}

static void check_grid(void *userdata)
{
    struct calls *calls = userdata;
    nsec_t due = loop_get_call(calls->loop)->due;
    nsec_t period = NSEC_PER_MSEC;
    assert_true(nsec_now(CLOCK_BOOTTIME) >= due);
    assert_int_equal(due, calls->due + (nsec_t)loop_get_call(calls->loop)->n_due * period);
    calls->due = due;
    calls->n += (unsigned)loop_get_call(calls->loop)->n_due;
    if (calls->n >= 20)
        loop_quit(calls->loop);
}

static void period_keeps_its_grid(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    nsec_t first = nsec_now(CLOCK_BOOTTIME) + NSEC_PER_MSEC / 3;
    struct calls calls = {.loop = loop, .due = first - NSEC_PER_MSEC};
    struct loop_timer *timer;
    assert_int_equal(loop_add_timer(loop, first, NSEC_PER_MSEC, check_grid, &calls, &timer), 0);
    assert_int_equal(loop_run(loop), 0);
    assert_true(calls.n >= 20);
    assert_int_equal(calls.due, first + (nsec_t)(calls.n - 1) * NSEC_PER_MSEC);
    loop_remove_timer(timer);
    loop_free(loop);
}

static void nothing_due_means_no_wake_up(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    struct calls calls = {.loop = loop};
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    struct loop_timer *once, *moved;
    assert_int_equal(loop_add_timer(loop, now, 0, count_timer, &calls, &once), 0);
    assert_int_equal(loop_add_timer(loop, now + NSEC_PER_MSEC, 0, count_timer, &calls, &moved), 0);
    loop_set_timer(moved, NSEC_MAX, 0);
    assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_int_equal(calls.n, 1);
    assert_int_equal(calls.n_due, 1);
    now = nsec_now(CLOCK_BOOTTIME);
    assert_int_equal(loop_run_once(loop, 20 * NSEC_PER_MSEC), 0);
    assert_true(nsec_now(CLOCK_BOOTTIME) - now >= 20 * NSEC_PER_MSEC);
    assert_int_equal(calls.n, 1);
    loop_set_timer(moved, nsec_now(CLOCK_BOOTTIME), 0);
    assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_int_equal(calls.n, 2);
    loop_remove_timer(once);
    loop_remove_timer(moved);
    loop_free(loop);
}

#define N_TIMERS 300

struct ordered {
    struct loop_timer *timer;
    nsec_t due;
    size_t index;
    bool fired;
    struct ordered_log {
        struct loop *loop;
        const struct ordered *items[N_TIMERS];
        size_t n;
    } * log;
};

static void log_order(void *userdata)
{
    struct ordered *item = userdata;
    assert_int_equal(loop_get_call(item->log->loop)->due, item->due);
    assert_int_equal(loop_get_call(item->log->loop)->n_due, 1);
    assert_false(item->fired);
    item->fired = true;
    item->log->items[item->log->n++] = item;
}

// Timers that are set, moved, disarmed and removed at random fire in the order of their times;
// timers of equal times fire in the order of their age.
static void timers_fire_in_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct loop *loop = make_loop();
        static struct ordered items[N_TIMERS];
        struct ordered_log log = {.loop = loop};
        nsec_t base = nsec_now(CLOCK_BOOTTIME) - NSEC_PER_SEC;
        unsigned random = seed;
        size_t n_armed = 0;
        for (size_t i = 0; i < N_TIMERS; i++) {
            items[i] =
                (struct ordered){.due = base + rand_r(&random) % 100, .index = i, .log = &log};
            assert_int_equal(
                loop_add_timer(loop, items[i].due, 0, log_order, &items[i], &items[i].timer), 0);
        }
        for (size_t n = 0; n < N_TIMERS; n++) {
            struct ordered *item = &items[(size_t)rand_r(&random) % N_TIMERS];
            if (!item->timer)
                continue;
            item->due = rand_r(&random) % 3 ? base + rand_r(&random) % 100 : NSEC_MAX;
            if (rand_r(&random) % 5)
                loop_set_timer(item->timer, item->due, 0);
            else
                item->timer = loop_remove_timer(item->timer);
        }
        for (size_t i = 0; i < N_TIMERS; i++)
            n_armed += items[i].timer && items[i].due != NSEC_MAX;
        assert_int_equal(loop_run_once(loop, 0), 0);
        assert_int_equal(log.n, n_armed);
        for (size_t i = 1; i < log.n; i++) {
            const struct ordered *a = log.items[i - 1], *b = log.items[i];
            assert_true(a->due < b->due || (a->due == b->due && a->index < b->index));
        }
        for (size_t i = 0; i < N_TIMERS; i++)
            loop_remove_timer(items[i].timer);
        loop_free(loop);
    }
}

static void remove_everything(void *userdata)
{
    struct calls *calls = userdata;
    count_timer(userdata);
    calls->timer = loop_remove_timer(calls->timer);
    calls->other_timer = loop_remove_timer(calls->other_timer);
    calls->io = loop_remove_io(calls->io);
}

static void callbacks_may_remove_what_is_due(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    struct calls calls = {.loop = loop};
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    assert_int_equal(
        loop_add_timer(loop, now - 2, NSEC_PER_MSEC, remove_everything, &calls, &calls.timer), 0);
    assert_int_equal(loop_add_timer(loop, now - 1, 0, count_timer, &calls, &calls.other_timer), 0);
    assert_int_equal(loop_add_io(loop, fds[0], EPOLLIN, count_io, &calls, &calls.io), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(loop_run_once(loop, 2 * NSEC_PER_MSEC), 0);
    assert_int_equal(calls.n, 1);
    close(fds[0]);
    close(fds[1]);
    loop_free(loop);
}

static void add_another(void *userdata)
{
    struct calls *calls = userdata;
    nsec_t due = loop_get_call(calls->loop)->due;
    calls->n++;
    loop_remove_timer(calls->timer);
    assert_int_equal(loop_add_timer(calls->loop, due, 0, add_another, calls, &calls->timer), 0);
}

// A timer that is always due does not keep the loop from handling descriptors.
static void past_timers_do_not_starve_io(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    struct calls timers = {.loop = loop}, ios = {.loop = loop};
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    assert_int_equal(loop_add_timer(loop, now, 0, add_another, &timers, &timers.timer), 0);
    assert_int_equal(loop_add_io(loop, fds[0], EPOLLIN, count_io, &ios, &ios.io), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_int_equal(timers.n, 10);
    assert_int_equal(ios.n, 10);
    assert_int_equal(loop_set_io(ios.io, 0), 0);
    assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_int_equal(ios.n, 10);
    loop_remove_timer(timers.timer);
    loop_remove_io(ios.io);
    close(fds[0]);
    close(fds[1]);
    loop_free(loop);
}

struct busy {
    struct loop *loop;
    nsec_t time, last; // spent in all calls, in the last one
    unsigned n_calls[3];
    uint64_t n_due[3];
};

struct busy_timer {
    struct busy *busy;
    size_t number;
    struct loop_timer *timer;
};

static void work_a_while(void *userdata)
{
    const struct busy_timer *own = userdata;
    struct busy *busy = own->busy;
    nsec_t begun = nsec_now(CLOCK_THREAD_CPUTIME_ID);
    do
        busy->last = nsec_now(CLOCK_THREAD_CPUTIME_ID) - begun;
    while (busy->last < 2 * NSEC_PER_MSEC);
    busy->time += busy->last;
    busy->n_calls[own->number]++;
    busy->n_due[own->number] += loop_get_call(busy->loop)->n_due;
}

// The timers of a share take a quarter of the time, take turns, and count the times that they have
// missed. Other timers go on.
static void a_share_limits_its_timers(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    struct busy busy = {.loop = loop};
    struct calls calls = {.loop = loop};
    struct busy_timer timers[3];
    struct loop_timer *other;
    const nsec_t begun = nsec_now(CLOCK_BOOTTIME), period = NSEC_PER_MSEC;
    struct loop_share share = {.free_at = begun};
    for (size_t i = 0; i < 3; i++) {
        timers[i] = (struct busy_timer){.busy = &busy, .number = i};
        assert_int_equal(
            loop_add_timer(loop, begun, period, work_a_while, &timers[i], &timers[i].timer), 0);
        loop_set_share(timers[i].timer, &share);
    }
    assert_int_equal(loop_add_timer(loop, begun, period, count_timer, &calls, &other), 0);
    nsec_t now = begun;
    for (; now < begun + 400 * NSEC_PER_MSEC; now = nsec_now(CLOCK_BOOTTIME))
        assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
    assert_true(busy.n_calls[0] > 0);
    assert_true(LOOP_SHARE_PART * (busy.time - busy.last) <= now - begun);
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(busy.n_calls[i] + 1 - busy.n_calls[0], 0, 2);
        assert_true((nsec_t)busy.n_due[i] * period <= now - begun + period);
        assert_true(busy.n_calls[i] < 2 || busy.n_due[i] > busy.n_calls[i]);
        loop_remove_timer(timers[i].timer);
    }
    assert_true(calls.n > busy.n_calls[0]);
    loop_remove_timer(other);
    loop_free(loop);
}

static void a_share_keeps_unused_time_for_a_period(void **state)
{
    (void)state;
    struct loop_share share = {0};
    const nsec_t now = 100 * NSEC_PER_SEC;
    assert_true(loop_share_is_left(NULL, now));
    loop_share_spend(&share, LOOP_SHARE_PERIOD / LOOP_SHARE_PART, now);
    assert_true(loop_share_is_left(&share, now)); // the time of the last period
    loop_share_spend(&share, NSEC_PER_MSEC, now);
    assert_false(loop_share_is_left(&share, now));
    assert_true(loop_share_is_left(&share, now + 4 * NSEC_PER_MSEC));
}

static void quit(void *userdata)
{
    struct calls *calls = userdata;
    count_timer(userdata);
    loop_quit(calls->loop);
}

static void quit_ends_one_run(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    struct calls calls = {.loop = loop};
    struct loop_timer *timer;
    assert_int_equal(loop_add_timer(loop, 1, 0, quit, &calls, &timer), 0);
    loop_quit(loop);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(calls.n, 0);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(calls.n, 1);
    loop_set_timer(timer, -5, 0);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(calls.n, 2);
    loop_remove_timer(timer);
    loop_free(loop);
}

static void what_cannot_be_waited_for_is_refused(void **state)
{
    (void)state;
    struct loop *loop = make_loop();
    struct loop_io *io;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(loop_add_io(loop, fd, EPOLLIN, count_io, NULL, &io), -EPERM);
    close(fd);
    assert_int_equal(loop_add_io(loop, fd, EPOLLIN, count_io, NULL, &io), -EBADF);
    assert_null(loop_remove_io(NULL));
    assert_null(loop_remove_timer(NULL));
    assert_null(loop_free(NULL));
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missed_ticks_come_as_one_call),
        cmocka_unit_test(period_keeps_its_grid),
        cmocka_unit_test(nothing_due_means_no_wake_up),
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(callbacks_may_remove_what_is_due),
        cmocka_unit_test(past_timers_do_not_starve_io),
        cmocka_unit_test(a_share_limits_its_timers),
        cmocka_unit_test(a_share_keeps_unused_time_for_a_period),
        cmocka_unit_test(quit_ends_one_run),
        cmocka_unit_test(what_cannot_be_waited_for_is_refused),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
