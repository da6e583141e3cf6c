// SPDX-License-Identifier: Apache-2.0
//
// A folder plays the tracefs instance, and a FIFO its trace_pipe.
#include "producer/service/armed/memory_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "tests/unit/temp_folder.h"

#define LONG_PSI "some 00000000000000000000000000000000000000000000000000000000001 1000000"
#define REST     (200 * NSEC_PER_MSEC)

struct fixture {
    char root[64], tracefs[96], run[96];
    struct source_roots roots;
    struct strbuf said;
    struct log log;
    struct loop *loop;
    struct kmem_watch *watch;
    int writer; // of the FIFO
    unsigned n_hits;
    struct kmem_watch_hit hit;
};

static void hear(void *userdata, enum log_level level, const char *line)
{
    (void)level;
    strbuf_addf(userdata, "%s\n", line);
}

static void put(const struct fixture *f, const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    for (char *p = full + strlen(f->root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static char first_of(const struct fixture *f, const char *path)
{
    char full[256], c = 0;
    snprintf(full, sizeof(full), "%s/tracefs/instances/it/%s", f->root, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, &c, 1), 1);
    close(fd);
    return c;
}

static void note_hit(void *userdata, const struct kmem_watch_hit *hit)
{
    struct fixture *f = userdata;
    f->n_hits++;
    f->hit = *hit;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    temp_folder_make(f->root);
    snprintf(f->tracefs, sizeof(f->tracefs), "%s/tracefs", f->root);
    snprintf(f->run, sizeof(f->run), "%s/run", f->root);
    f->roots = (struct source_roots){.proc = f->root, .tracefs = f->tracefs, .run = f->run};
    f->log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = hear, .userdata = &f->said};
    put(f, "tracefs/instances/it/tracing_on", "1\n");
    put(f, "tracefs/instances/it/buffer_size_kb", "1408\n");
    put(f, "tracefs/instances/it/trace_clock", "[local] boot\n");
    put(f, "tracefs/instances/it/events/vmscan/wake/enable", "0\n");
    put(f, "tracefs/instances/it/events/compaction/begin/enable", "0\n");
    char fifo[160];
    snprintf(fifo, sizeof(fifo), "%s/instances/it/trace_pipe", f->tracefs);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    f->writer = open(fifo, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    assert_true(f->writer >= 0);
    assert_int_equal(loop_new(&f->loop), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    kmem_watch_free(f->watch);
    loop_free(f->loop);
    close(f->writer);
    temp_folder_remove(f->root);
    strbuf_done(&f->said);
    free(f);
    return 0;
}

static int watch_events(struct fixture *f, const char *const *events, const char *const *psi,
                        struct err *err)
{
    struct kmem_watch_options options = {
        .loop = f->loop,
        .log = &f->log,
        .roots = &f->roots,
        .instance = "it",
        .events = events,
        .psi = psi,
        .rest = REST,
        .rest_max = 2 * REST,
        .hit = note_hit,
        .userdata = f,
    };
    return kmem_watch_new(&options, &f->watch, err);
}

static nsec_t write_event(const struct fixture *f, const char *name)
{
    char line[200];
    nsec_t now = nsec_now(CLOCK_BOOTTIME) / NSEC_PER_USEC * NSEC_PER_USEC;
    int n = snprintf(
        line, sizeof(line), "      a 1.000001: b: [-7   [001] ..... %5lld.%06lld: %s: nid=0\n",
        (long long)(now / NSEC_PER_SEC), (long long)(now % NSEC_PER_SEC / NSEC_PER_USEC), name);
    assert_int_equal(write(f->writer, line, (size_t)n), n);
    return now;
}

static void test_parse(void **state)
{
    static const char text[] =
        "CPU:0 [LOST 3 EVENTS]\n"
        "   9.100000: x: y-1  [000] .....  6592.385189: mm_compaction_begin: zone_start=0x1\n";
    struct trace_line line;
    const nsec_t at = 6592385189000;
    (void)state;
    // A part of a task's name that looks like a time does not count: the time is outside of the
    // limits.
    assert_true(kmem_watch_parse(text, sizeof(text) - 1, at - 5, at + 5, &line));
    assert_int_equal(line.time, at);
    assert_true(text_eq(line.event, TEXT("mm_compaction_begin")));
    assert_true(text_eq(line.task, TEXT("9.100000: x: y-1")));
    assert_true(text_eq(line.arguments, TEXT(" zone_start=0x1")));
    // The text has whole microseconds, so an event may seem to be earlier than the start of the
    // watch.
    assert_true(kmem_watch_parse(text, sizeof(text) - 1, at + 999, at + 2000, &line));
    assert_int_equal(line.time, at + 999);
    assert_false(kmem_watch_parse(text, sizeof(text) - 1, at + 2000, at + 3000, &line));
    for (size_t n = 0; n < 80; n++) { // cut at each place
        char *copy = memcpy(test_malloc(n + 1), text, n);
        kmem_watch_parse(copy, n, 0, NSEC_MAX, &line);
        test_free(copy);
    }
    // A task's name that has its usual place is not read as a time, even if the time is within the
    // limits.
    static const char named[] =
        "    5.000000: x:-78      [000] .....     5.000100: mm_compaction_begin: a";
    assert_true(kmem_watch_parse(named, sizeof(named) - 1, 0, NSEC_MAX, &line));
    assert_true(text_eq(line.event, TEXT("mm_compaction_begin")));
    assert_true(text_eq(line.name, TEXT("5.000000: x:")));
    assert_int_equal(line.pid, 78);
    assert_false(kmem_watch_parse("99999999999999999999.000000: a: b", 33, 0, NSEC_MAX, &line));
}

static void test_psi_texts(void **state)
{
    (void)state;
    assert_int_equal(kmem_watch_check_psi(KMEM_WATCH_PSI_DEFAULT, NULL), 0);
    assert_int_equal(kmem_watch_check_psi("full 1 10000000", NULL), 0);
    assert_int_equal(kmem_watch_check_psi("some 1 1000000 /c g/memory.pressure", NULL), 0);
    static const char *const bad[] = {"",
                                      "some",
                                      "some 1",
                                      "any 1 1000000",
                                      "some 1 1000000 ",
                                      "some 1 1000000 relative/file",
                                      LONG_PSI,
                                      "some 0 1000000",
                                      "some 1 1",
                                      "some 2000000 1000000"};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct err err = {0};
        assert_int_equal(kmem_watch_check_psi(bad[i], &err), -EINVAL);
        assert_non_null(strstr(err.text, "\""));
    }
}

static void test_hit_and_rest(void **state)
{
    struct fixture *f = *state;
    static const char *const events[] = {"vmscan/wake", "compaction/begin", NULL};
    assert_int_equal(watch_events(f, events, NULL, NULL), 0);
    assert_int_equal(first_of(f, "tracing_on"), '1');
    assert_int_equal(first_of(f, "buffer_size_kb"), '4');
    assert_int_equal(first_of(f, "events/vmscan/wake/enable"), '1');

    nsec_t time = write_event(f, "begin");
    write_event(f, "wake");
    assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
    assert_int_equal(f->n_hits, 1);
    assert_int_equal(f->hit.time, time);
    assert_string_equal(f->hit.what, "compaction/begin");
    assert_string_equal(f->hit.detail, " by a 1.000001: b: [-7: nid=0");
    assert_true(kmem_watch_resting(f->watch));
    assert_int_equal(first_of(f, "tracing_on"), '0');

    // Events during the rest do not wake the loop, and are gone afterwards.
    write_event(f, "wake");
    assert_int_equal(loop_run_once(f->loop, 50 * NSEC_PER_MSEC), 0);
    assert_true(kmem_watch_resting(f->watch));
    assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
    assert_false(kmem_watch_resting(f->watch));
    assert_true(nsec_now(CLOCK_BOOTTIME) - time >= REST);
    assert_int_equal(first_of(f, "tracing_on"), '1');
    assert_int_equal(loop_run_once(f->loop, 50 * NSEC_PER_MSEC), 0);
    assert_int_equal(kmem_watch_hits(f->watch), 1);

    write_event(f, "wake");
    assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
    assert_int_equal(f->n_hits, 2);
    assert_string_equal(f->hit.what, "vmscan/wake");
    f->watch = kmem_watch_free(f->watch);
    assert_int_equal(first_of(f, "tracing_on"), '1'); // as it was found
    assert_int_equal(first_of(f, "events/vmscan/wake/enable"), '0');
}

// The rest doubles with each further hit of the last hour, up to the longest rest.
static void test_rest_doubles(void **state)
{
    struct fixture *f = *state;
    static const char *const events[] = {"vmscan/wake", NULL};
    const nsec_t rests[] = {REST, 2 * REST, 2 * REST};
    assert_int_equal(watch_events(f, events, NULL, NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        write_event(f, "wake");
        assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
        nsec_t hit_at = nsec_now(CLOCK_BOOTTIME);
        assert_int_equal(f->n_hits, i + 1);
        while (kmem_watch_resting(f->watch))
            assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
        nsec_t rested = nsec_now(CLOCK_BOOTTIME) - hit_at;
        assert_true(rested >= rests[i] - 20 * NSEC_PER_MSEC);
        assert_true(i > 0 || rested < 2 * REST || rested > 5 * REST); // unless the machine is slow
    }
    // kmem_watch_rest_until() lets the watch rest until a time. An earlier time does not shorten
    // the rest.
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    kmem_watch_rest_until(f->watch, now + 50 * NSEC_PER_MSEC);
    kmem_watch_rest_until(f->watch, now);
    assert_true(kmem_watch_resting(f->watch));
    write_event(f, "wake");
    while (kmem_watch_resting(f->watch))
        assert_int_equal(loop_run_once(f->loop, NSEC_PER_SEC), 0);
    assert_true(nsec_now(CLOCK_BOOTTIME) >= now + 50 * NSEC_PER_MSEC);
    assert_int_equal(f->n_hits, 3);
}

static void test_psi_of_a_cgroup(void **state)
{
    struct fixture *f = *state;
    static const char *const gone[] = {"some 1000 1000000 /nowhere/memory.pressure", NULL};
    struct err err = {0};
    assert_int_equal(watch_events(f, NULL, gone, &err), -ENODEV);
    assert_non_null(strstr(f->said.text, "\"some 1000 1000000 /nowhere/memory.pressure\" is not"));
}

static void check(struct fixture *f, const char *event, const char *hint)
{
    const char *const events[] = {"oom/mark_victim", event, NULL};
    struct err err = {0};
    assert_int_equal(memory_watch_check_events(&f->roots, events, &err), hint ? -EINVAL : 0);
    if (hint)
        assert_string_equal(err.hint, hint);
}

static void test_names_of_events(void **state)
{
    struct fixture *f = *state;
    check(f, "any/thing", NULL); // tracefs has no list of events yet
    put(f, "tracefs/available_events",
        "oom:mark_victim\nvmscan:mm_vmscan_direct_reclaim_begin\n"
        "vmscan:mm_vmscan_memcg_reclaim_begin\ncompaction:mm_compaction_begin\n");
    check(f, "compaction/mm_compaction_begin", NULL);
    check(f, "vmscan/mm_vmscan_direct_reclaim_begn",
          "did you mean \"vmscan/mm_vmscan_direct_reclaim_begin\"?");
    check(f, "memory_management/mm_compaction_begin",
          "did you mean \"compaction/mm_compaction_begin\"?");
    char hint[160];
    snprintf(hint, sizeof(hint), "%s/available_events lists them", f->tracefs);
    check(f, "net/quite_another", hint);
}

static void test_what_is_not_there(void **state)
{
    struct fixture *f = *state;
    static const char *const events[] = {"vmscan/gone", "wake", "../x/y", "vmscan/wake", NULL};
    static const char *const none[] = {"vmscan/gone", NULL};
    static const char *const psi[] = {KMEM_WATCH_PSI_DEFAULT, NULL};
    assert_int_equal(watch_events(f, events, NULL, NULL), 0);
    assert_non_null(strstr(f->said.text, "\"vmscan/gone\" is not watched"));
    assert_non_null(strstr(f->said.text, "\"wake\" is not watched: not of the form"));
    f->watch = kmem_watch_free(f->watch);

    struct err err = {0};
    assert_int_equal(watch_events(f, none, psi, &err), -ENODEV);
    assert_null(f->watch);
    assert_non_null(strstr(err.text, "none of the events"));
    assert_int_equal(first_of(f, "tracing_on"), '1');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_psi_texts),
        cmocka_unit_test_setup_teardown(test_hit_and_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rest_doubles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_psi_of_a_cgroup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
