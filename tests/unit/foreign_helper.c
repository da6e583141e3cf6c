// SPDX-License-Identifier: Apache-2.0
//
// Jobs of the test in a forked helper. One answers, one never answers, and one kills its process;
// the others use time.
#include "producer/foreign/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "tests/unit/unit.h"

enum { ANSWER, HANG, DIE, COMPUTE, BLOCK, QUEUE };

#define WORK_MS 100

// Answers the text and the number of answers so far, and gives back the request's descriptor.
static void answer(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret)
{
    static int n;
    (void)worker;
    char digit = (char)('0' + ++n);
    memcpy(ret->bytes, request->bytes, request->size);
    memcpy(ret->bytes + request->size, &digit, 1);
    ret->size = request->size + 1;
    ret->fd = request->fd >= 0 ? steal_fd(&request->fd) : -1;
}

static void hang(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret)
{
    (void)worker, (void)request, (void)ret;
    for (;;)
        pause();
}

static void die(struct foreign_worker *worker, struct foreign_request *request,
                struct foreign_answer *ret)
{
    (void)worker, (void)request, (void)ret;
    kill(getpid(), SIGKILL);
}

static void compute(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret)
{
    nsec_t end = nsec_now(CLOCK_PROCESS_CPUTIME_ID) + WORK_MS * NSEC_PER_MSEC;
    (void)worker, (void)request, (void)ret;
    while (nsec_now(CLOCK_PROCESS_CPUTIME_ID) < end)
        ;
}

static void block(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret)
{
    (void)worker, (void)request, (void)ret;
    nanosleep(&(struct timespec){.tv_nsec = WORK_MS * NSEC_PER_MSEC}, NULL);
}

// Wants the CPU for 3 * WORK_MS of real time, whatever share of the CPU it gets, and then sleeps
// for 2 * WORK_MS.
static void queue(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret)
{
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + 3 * WORK_MS * NSEC_PER_MSEC;
    while (nsec_now(CLOCK_MONOTONIC) < end)
        ;
    block(worker, request, ret);
    block(worker, request, ret);
}

static const struct foreign_job jobs[FOREIGN_JOBS_MAX] = {
    [ANSWER] = {"answer", answer, 0}, [HANG] = {"hang", hang, 0},
    [DIE] = {"die", die, 0},          [COMPUTE] = {"compute", compute, 0},
    [BLOCK] = {"block", block, 0},    [QUEUE] = {"queue", queue, 0},
};

struct fixture {
    struct loop *loop;
    struct log log;
    struct foreign *foreign;
    struct foreign_helper *helper;
    struct strbuf told; // "TEXT=RESULT " of each answer
    struct strbuf logged;
};

static void keep_line(void *userdata, enum log_level level, const char *line)
{
    (void)level;
    strbuf_addf(userdata, "%s\n", line);
}

// `program`: see struct foreign_options.
static void setup_with(struct fixture *f, const char *program)
{
    *f = (struct fixture){.log = {.max_level = LOG_LEVEL_INFO, .write = keep_line}};
    f->log.userdata = &f->logged;
    assert_int_equal(loop_new(&f->loop), 0);
    struct foreign_options options = {
        .loop = f->loop, .log = &f->log, .proc = "/proc", .jobs = jobs, .program = program};
    assert_int_equal(foreign_new(&options, &f->foreign), 0);
    assert_int_equal(foreign_helper_new(f->foreign, &f->helper), 0);
}

static void setup(struct fixture *f)
{
    setup_with(f, NULL);
}

static void teardown(struct fixture *f)
{
    strbuf_done(&f->logged);
    foreign_helper_free(f->helper);
    foreign_free(f->foreign);
    loop_free(f->loop);
    strbuf_done(&f->told);
}

static void done(void *userdata, int result, const void *text, size_t size, int fd)
{
    struct fixture *f = userdata;
    strbuf_addf(&f->told, "%.*s=%d ", (int)size, (const char *)text, result);
    if (fd >= 0)
        strbuf_addf(&f->told, "fd ");
    close_fd(fd);
}

static int ask(struct fixture *f, unsigned job, uint64_t payer, const char *text,
               struct foreign_call **ret, struct err *err)
{
    struct foreign_ask asked = {.job = (enum foreign_job_id)job,
                                .payer = payer,
                                .bytes = text,
                                .size = strlen(text),
                                .fd = -1,
                                .time_max = 100 * NSEC_PER_MSEC};
    if (job != HANG) // these jobs are in time, even if the machine is busy
        asked.time_max = 60 * NSEC_PER_SEC;
    return foreign_helper_ask(f->helper, &asked, done, f, ret, err);
}

static void run_until_done(struct fixture *f)
{
    while (foreign_helper_n_calls(f->helper) > 0)
        assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
}

static void calls_are_answered_from_the_loop(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    assert_int_equal(ask(&f, ANSWER, 1, "a", NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 1, "b", NULL, NULL), 0);
    assert_null(f.told.text);
    run_until_done(&f);
    assert_string_equal(f.told.text, "a1=0 b2=0 ");
    teardown(&f);
}

static void descriptors_go_there_and_back(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct foreign_ask asked = {.job = (enum foreign_job_id)ANSWER,
                                .bytes = "",
                                .fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                .time_max = 60 * NSEC_PER_SEC};
    assert_int_equal(foreign_helper_ask(f.helper, &asked, done, &f, NULL, NULL), 0);
    run_until_done(&f);
    assert_string_equal(f.told.text, "1=0 fd ");
    teardown(&f);
}

static void payers_are_served_in_turn(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(&f, ANSWER, 1, "a", NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 2, "b", NULL, NULL), 0);
    assert_true(foreign_helper_settle(f.helper, NSEC_MAX));
    assert_string_equal(f.told.text, "a1=0 b2=0 a3=0 a4=0 ");
    teardown(&f);
}

static void a_late_job_costs_its_payer_alone(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    setup(&f);
    assert_int_equal(ask(&f, HANG, 1, "", NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 1, "a", NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 2, "b", NULL, NULL), 0);
    run_until_done(&f);
    assert_string_equal(f.told.text, "=-110 b1=0 =-110 ");
    assert_int_equal(ask(&f, ANSWER, 1, "a", NULL, &err), -ETIMEDOUT);
    assert_string_equal(err.text, "look-ups and reads of files of user 1 took too long: files of "
                                  "this user are left alone for 60 s");
    assert_int_equal(ask(&f, ANSWER, 0, "r", NULL, &err), 0);
    run_until_done(&f);
    teardown(&f);
}

static void a_bounded_wait_ends_in_time(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    assert_int_equal(ask(&f, HANG, 1, "", NULL, NULL), 0);
    assert_false(foreign_helper_settle(f.helper, nsec_now(CLOCK_MONOTONIC) + NSEC_PER_MSEC));
    assert_int_equal(foreign_helper_n_calls(f.helper), 1);
    assert_true(foreign_helper_settle(f.helper, NSEC_MAX));
    assert_string_equal(f.told.text, "=-110 ");
    teardown(&f);
}

static void a_helper_that_dies_is_replaced(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    assert_int_equal(ask(&f, ANSWER, 1, "a", NULL, NULL), 0);
    assert_int_equal(ask(&f, DIE, 1, "", NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 1, "b", NULL, NULL), 0);
    run_until_done(&f);
    assert_string_equal(f.told.text, "a1=0 =-32 b1=0 ");
    teardown(&f);
}

static void a_helper_that_cannot_be_started_is_told(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct foreign_call *call;
    setup_with(&f, "/there/is/no/such/program");
    assert_int_equal(ask(&f, ANSWER, 1, "a", &call, &err), 0);
    assert_int_equal(ask(&f, ANSWER, 1, "b", &call, &err), 0);
    run_until_done(&f);
    assert_string_equal(f.told.text, "=-2 =-2 ");
    assert_string_equal(f.logged.text,
                        "the helper that reads files of other users cannot be started (No such "
                        "file or directory): names of functions are missing\n");
    teardown(&f);
}

static void cancelled_calls_are_not_reported(void **state)
{
    (void)state;
    struct fixture f;
    struct foreign_call *first, *second;
    setup(&f);
    assert_int_equal(ask(&f, HANG, 1, "", &first, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 2, "b", &second, NULL), 0);
    foreign_call_cancel(second);
    assert_int_equal(loop_run_once(f.loop, NSEC_PER_SEC), 0);
    foreign_call_cancel(first);
    run_until_done(&f);
    assert_null(f.told.text);
    teardown(&f);
}

static void free_helper(void *userdata, int result, const void *text, size_t size, int fd)
{
    struct fixture *f = userdata;
    (void)result, (void)text, (void)size, (void)fd;
    f->helper = foreign_helper_free(f->helper);
}

static void the_end_of_a_call_may_free_the_helper(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct foreign_ask asked = {
        .job = (enum foreign_job_id)ANSWER, .payer = 1, .bytes = "", .fd = -1};
    asked.time_max = 60 * NSEC_PER_SEC;
    assert_int_equal(foreign_helper_ask(f.helper, &asked, free_helper, &f, NULL, NULL), 0);
    assert_int_equal(ask(&f, ANSWER, 1, "b", NULL, NULL), 0);
    while (f.helper)
        assert_int_equal(loop_run_once(f.loop, NSEC_PER_SEC), 0);
    assert_string_equal(f.told.text, "=-125 ");
    teardown(&f);
}

// Runs a job for payer 1. Returns the milliseconds that payer 1 has paid so far.
static uint64_t cost_ms(struct fixture *f, unsigned job)
{
    assert_int_equal(ask(f, job, 1, "", NULL, NULL), 0);
    run_until_done(f);
    return (FOREIGN_SHARE - foreign_time_left(f->foreign, 1)) / 1000;
}

// Computes in a session of its own, which the kernel may schedule as one group.
static void compute_for_ever(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    for (;;)
        ;
}

// The helper shares one processor with three other processes that compute all the time.
enum { N_OTHERS = 3 };
struct crowd {
    cpu_set_t before;
    pid_t others[N_OTHERS];
};

static void crowd_begin(struct crowd *crowd)
{
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof(crowd->before), &crowd->before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &crowd->before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    for (int i = 0; i < N_OTHERS; i++)
        if ((crowd->others[i] = fork()) == 0)
            compute_for_ever();
}

static void crowd_end(const struct crowd *crowd)
{
    for (int i = 0; i < N_OTHERS; i++) {
        kill(crowd->others[i], SIGKILL);
        waitpid(crowd->others[i], NULL, 0);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(crowd->before), &crowd->before), 0);
}

static void waiting_for_a_processor_costs_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct crowd crowd;
    crowd_begin(&crowd);
    setup(&f);
    nsec_t begun = nsec_now(CLOCK_MONOTONIC);
    uint64_t ms = cost_ms(&f, COMPUTE);
    nsec_t took_ms = (nsec_now(CLOCK_MONOTONIC) - begun) / NSEC_PER_MSEC;
    crowd_end(&crowd);
    assert_true(took_ms > 2 * WORK_MS);
    assert_in_range(ms, WORK_MS - 10, WORK_MS * 3 / 2);
    teardown(&f);
}

// The job still sleeps when its time is over, but it has waited for a processor most of the time.
static void waiting_for_a_processor_makes_nobody_late(void **state)
{
    (void)state;
    struct fixture f;
    struct crowd crowd;
    const struct foreign_ask asked = {.job = (enum foreign_job_id)QUEUE,
                                      .payer = 1,
                                      .bytes = "",
                                      .fd = -1,
                                      .time_max = 4 * WORK_MS * NSEC_PER_MSEC};
    crowd_begin(&crowd);
    setup(&f);
    assert_int_equal(foreign_helper_ask(f.helper, &asked, done, &f, NULL, NULL), 0);
    run_until_done(&f);
    crowd_end(&crowd);
    assert_string_equal(f.told.text, "=0 ");
    teardown(&f);
}

static void blocking_costs_its_time(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    assert_true(cost_ms(&f, BLOCK) >= WORK_MS / 2);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_from_the_loop),
        cmocka_unit_test(descriptors_go_there_and_back),
        cmocka_unit_test(payers_are_served_in_turn),
        cmocka_unit_test(a_late_job_costs_its_payer_alone),
        cmocka_unit_test(a_bounded_wait_ends_in_time),
        cmocka_unit_test(a_helper_that_dies_is_replaced),
        cmocka_unit_test(a_helper_that_cannot_be_started_is_told),
        cmocka_unit_test(cancelled_calls_are_not_reported),
        cmocka_unit_test(the_end_of_a_call_may_free_the_helper),
        cmocka_unit_test(waiting_for_a_processor_costs_nothing),
        cmocka_unit_test(waiting_for_a_processor_makes_nobody_late),
        cmocka_unit_test(blocking_costs_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
