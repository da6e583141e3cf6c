// SPDX-License-Identifier: Apache-2.0
//
// The process 77 of a made-up /proc has the id 5 in its own namespace. Its map grows, is replaced,
// or belongs to another user.
#include <sys/time.h>

#include "common/cleanup.h"
#include "producer/sources/perf_map/perf_map_job.h"
#include "producer/sources/requester.h"
#include "tests/unit/source_fixture.h"

#define PERIOD (10 * NSEC_PER_MSEC)

static const char stat_text[] = "77 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n";
static const char status_text[] = "Name:\ta\nNSpid:\t77\t5\nUid:\t0\n";

struct reading {
    uint32_t last_map;
    uint64_t n_maps, n_cut;
    char path[128];
    struct strbuf text; // of the last map
};

// All packets, put together by the rules of perf_map.proto.
static struct reading read_packets(const struct source_fixture *f)
{
    struct reading reading = {0};
    struct packet_cursor cursor = {0};
    struct packet_view view;
    while (packet_buffer_next(f->buffer, &cursor, &view)) {
        struct wire_field map, text, path;
        if (!message_field(view.data, view.size, PB_TracePacket_perf_map, &map))
            continue;
        uint32_t id = (uint32_t)message_number(map.data, map.size, PB_PerfMap_map_id);
        assert_int_equal(message_number(map.data, map.size, PB_PerfMap_pid), 77);
        assert_true(message_field(map.data, map.size, PB_PerfMap_path, &path));
        snprintf(reading.path, sizeof(reading.path), "%.*s", (int)path.size, path.data);
        if (id != reading.last_map) {
            strbuf_clear(&reading.text);
            reading.n_maps++;
        }
        reading.last_map = id;
        reading.n_cut += message_number(map.data, map.size, PB_PerfMap_cut);
        if (!message_field(map.data, map.size, PB_PerfMap_text, &text))
            continue;
        assert_int_equal(message_number(map.data, map.size, PB_PerfMap_offset), reading.text.size);
        strbuf_add(&reading.text, (const char *)text.data, text.size);
    }
    return reading;
}

static void expect(const struct source_fixture *f, uint64_t n_maps, const char *path,
                   const char *text)
{
    struct reading reading = read_packets(f);
    assert_int_equal(reading.n_maps, n_maps);
    assert_string_equal(reading.path, path);
    assert_string_equal(reading.text.text ? reading.text.text : "", text);
    strbuf_done(&reading.text);
}

static void process_make(struct source_fixture *f, const char *cmdline)
{
    fixture_init(f, "linux.perf_map", 4u << 20);
    fixture_text(f, "proc/77/stat", stat_text);
    fixture_text(f, "proc/77/status", status_text);
    fixture_text(f, "proc/77/cmdline", cmdline);
    fixture_text(f, "proc/77/root/tmp/perf-77.map", "1 1 not_ours\n");
}

struct configs {
    Pb__DataSourceConfig config;
    Pb__PerfMapConfig own;
    int32_t pids[1];
};

static const Pb__DataSourceConfig *config_make(struct configs *c)
{
    pb__data_source_config__init(&c->config);
    pb__perf_map_config__init(&c->own);
    c->pids[0] = 77;
    c->own.n_pids = 1;
    c->own.pids = c->pids;
    c->own.has_period_ms = true;
    c->own.period_ms = PERIOD / NSEC_PER_MSEC;
    c->config.perf_map_config = &c->own;
    return &c->config;
}

static void a_map_is_read_while_it_grows(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    process_make(&f, "/usr/bin/node");
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 2 * PERIOD);
    assert_int_equal(read_packets(&f).n_maps, 0);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a b\n20 8 c");
    fixture_run(&f, 3 * PERIOD);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 a b\n");
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a b\n20 8 cd\n30 1 e\n40 1 f");
    fixture_run(&f, 3 * PERIOD);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 a b\n20 8 cd\n30 1 e\n");
    f.class->stop(f.source);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 a b\n20 8 cd\n30 1 e\n40 1 f");
    fixture_done(&f);
}

static void times_beside_a_map_are_taken(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct packet_cursor cursor = {0};
    struct packet_view view;
    struct wire_field map, times;
    uint64_t next = 0;
    process_make(&f, "/usr/bin/java");
    fixture_text(&f, "proc/77/root/tmp/perf-5.map.times", "1 10 8\n2 10");
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a\n");
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 2 * PERIOD);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map.times", "1 10 8\n2 10\n3 10 8\n");
    fixture_run(&f, 3 * PERIOD);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 a\n");
    while (packet_buffer_next(f.buffer, &cursor, &view)) {
        if (!message_field(view.data, view.size, PB_TracePacket_perf_map, &map) ||
            !message_field(map.data, map.size, PB_PerfMap_times, &times))
            continue;
        assert_int_equal(message_number(map.data, map.size, PB_PerfMap_times_offset), next);
        assert_int_equal(times.size, next ? 12 : 7);
        next += times.size;
    }
    assert_int_equal(next, 19);
    f.class->stop(f.source);
    fixture_done(&f);
}

static void a_map_outlives_its_process(void **state)
{
    (void)state;
    char from[PATH_MAX], to[PATH_MAX];
    struct source_fixture f;
    struct configs c;
    process_make(&f, "/usr/bin/node");
    fixture_start(&f, config_make(&c));
    snprintf(from, sizeof(from), "%s/proc/77", f.root);
    snprintf(to, sizeof(to), "%s/gone", f.root);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 last\n");
    assert_int_equal(rename(from, to), 0);
    fixture_run(&f, 3 * PERIOD);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 last\n");
    f.class->stop(f.source);
    fixture_done(&f);
}

static void a_replaced_map_is_another_one(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct source_fixture f;
    struct configs c;
    process_make(&f, "/usr/bin/node");
    snprintf(path, sizeof(path), "%s/proc/77/root/tmp/perf-5.map", f.root);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 first_and_long\n");
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 0);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 cut\n");
    fixture_run(&f, 3 * PERIOD);
    expect(&f, 2, "/tmp/perf-5.map", "10 8 cut\n");
    f.class->stop(f.source);
    fixture_done(&f);
}

static void places_of_android_are_known(void **state)
{
    (void)state;
    static const char *const places[] = {"/data/data/com.example.app/perf-5.map",
                                         "/data/local/tmp/perf-5.map"};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        struct source_fixture f;
        struct configs c;
        process_make(&f, "com.example.app:part");
        snprintf(path, sizeof(path), "proc/77/root%s", places[i]);
        fixture_text(&f, path, "10 8 a\n");
        fixture_start(&f, config_make(&c));
        fixture_run(&f, 0);
        expect(&f, 1, places[i], "10 8 a\n");
        f.class->stop(f.source);
        fixture_done(&f);
    }
}

// The source reads no link, no folder, and no file that is older than the process.
static void what_is_not_the_process_s_is_not_read(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        char path[PATH_MAX];
        struct source_fixture f;
        struct configs c;
        struct timeval old[2] = {{1000, 0}, {1000, 0}};
        process_make(&f, "/usr/bin/node");
        snprintf(path, sizeof(path), "%s/proc/77/root/tmp/perf-5.map", f.root);
        if (how == 0)
            assert_int_equal(symlink("perf-77.map", path), 0);
        else if (how == 1)
            assert_int_equal(mkdir(path, 0755), 0);
        else
            fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 stale\n");
        if (how == 2)
            assert_int_equal(utimes(path, old), 0);
        fixture_start(&f, config_make(&c));
        f.class->stop(f.source);
        assert_int_equal(read_packets(&f).n_maps, 0);
        fixture_done(&f);
    }
}

static void a_map_has_a_limit(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct strbuf text CLEANUP(strbuf_done) = {0};
    process_make(&f, "/usr/bin/node");
    for (int i = 0; i < 10000; i++)
        strbuf_addf(&text, "%x 1 function%d\n", 4096 + i, i);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", text.text);
    config_make(&c);
    c.own.has_max_map_kb = true;
    c.own.max_map_kb = 64;
    fixture_start(&f, &c.config);
    fixture_run(&f, 3 * PERIOD);
    f.class->stop(f.source);
    struct reading reading = read_packets(&f);
    assert_int_equal(reading.n_cut, 1);
    assert_in_range(reading.text.size, 40000, 65536);
    assert_memory_equal(reading.text.text, text.text, reading.text.size);
    assert_non_null(strstr(f.log_text.text, "larger than 64 KiB"));
    strbuf_done(&reading.text);
    fixture_done(&f);
}

// The process belongs to a user with a budget.
static void a_process_that_replaces_its_map_fills_neither_log_nor_trace(void **state)
{
    (void)state;
    char status[128];
    unsigned uid = geteuid() ? geteuid() : 1000;
    struct source_fixture f;
    struct configs c;
    struct strbuf text CLEANUP(strbuf_done) = {0};
    char from[PATH_MAX], to[PATH_MAX];
    process_make(&f, "/usr/bin/node");
    snprintf(status, sizeof(status), "Name:\ta\nNSpid:\t77\t5\nUid:\t%u\t%u\t%u\t%u\n", uid, uid,
             uid, uid);
    fixture_text(&f, "proc/77/status", status);
    snprintf(from, sizeof(from), "%s/proc/77/root/tmp/next", f.root);
    snprintf(to, sizeof(to), "%s/proc/77/root/tmp/perf-5.map", f.root);
    for (int i = 0; i < 10000; i++)
        strbuf_addf(&text, "%x 1 function%d\n", 4096 + i, i);
    config_make(&c);
    c.own.has_max_map_kb = true;
    c.own.max_map_kb = 64;
    fixture_start(&f, &c.config);
    for (int i = 0; i < 25; i++) {
        fixture_text(&f, "proc/77/root/tmp/next", text.text);
        assert_int_equal(rename(from, to), 0);
        fixture_run(&f, 3 * PERIOD);
    }
    f.class->stop(f.source);
    struct reading reading = read_packets(&f);
    assert_in_range(reading.n_cut, 2, 10);
    const char *told = strstr(f.log_text.text, "larger than 64 KiB");
    assert_non_null(told);
    assert_null(strstr(told, "linux.perf_map: "));
    strbuf_done(&reading.text);
    fixture_done(&f);
}

static void profiled_processes_are_meant_without_a_config(void **state)
{
    (void)state;
    struct source_fixture f;
    Pb__DataSourceConfig config;
    pb__data_source_config__init(&config);
    process_make(&f, "/usr/bin/node");
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a\n");
    fixture_start(&f, &config);
    pid_feed_profiled(&f.pids, 77);
    pid_feed_profiled(&f.pids, 77);
    pid_feed_profiled(&f.pids, 78);
    f.class->stop(f.source);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 a\n");
    pid_feed_profiled(&f.pids, 77); // nobody listens
    fixture_done(&f);
}

// The helper's job answers the first request that is marked as the last, and fails from then on.
static void read_one_last_piece(struct foreign_worker *worker, struct foreign_request *request,
                                struct foreign_answer *ret)
{
    static bool had_one;
    const struct perf_map_ask *ask = request->bytes;
    if (had_one)
        ret->result = -EIO;
    else
        perf_map_read_job(worker, request, ret);
    had_one |= ask->last;
}

static void refuse_read(struct foreign_worker *worker, struct foreign_request *request,
                        struct foreign_answer *ret)
{
    struct perf_map_news *news = (void *)ret->bytes;
    (void)worker, (void)request;
    memset(news, 0, sizeof(*news));
    news->refused = true;
    ret->size = sizeof(*news);
    ret->result = 0;
}

static void read_by(struct source_fixture *f, foreign_job_fn job)
{
    static struct foreign_job jobs[FOREIGN_JOBS_MAX];
    memcpy(jobs, foreign_jobs, sizeof(jobs));
    jobs[FOREIGN_PERF_MAP_READ].run = job;
    struct foreign_options options = {
        .loop = f->loop, .log = &f->log, .proc = f->proc, .jobs = jobs};
    foreign_helper_free(f->helper);
    foreign_free(f->foreign);
    assert_int_equal(foreign_new(&options, &f->foreign), 0);
    assert_int_equal(foreign_helper_new(f->foreign, &f->helper), 0);
    f->env.helper = f->helper;
}

// The last packet of a map.
static struct wire_field last_map(const struct source_fixture *f)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    struct wire_field map = {0}, found;
    while (packet_buffer_next(f->buffer, &cursor, &view))
        if (message_field(view.data, view.size, PB_TracePacket_perf_map, &found))
            map = found;
    return map;
}

static void an_end_that_is_not_read_is_counted(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct source_counts counts;
    struct strbuf text CLEANUP(strbuf_done) = {0};
    process_make(&f, "/usr/bin/node");
    read_by(&f, read_one_last_piece);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a\n");
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 0);
    for (int i = 0; i < 4000; i++)
        strbuf_addf(&text, "%x 1 function%d\n", 4096 + i, i);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", text.text);
    f.class->stop(f.source);
    struct reading reading = read_packets(&f);
    assert_in_range(reading.text.size, PERF_MAP_PIECE / 2, text.size / 2);
    struct wire_field map = last_map(&f);
    assert_int_equal(message_number(map.data, map.size, PB_PerfMap_map_id), 1);
    assert_int_equal(message_number(map.data, map.size, PB_PerfMap_unread_bytes),
                     text.size - reading.text.size);
    f.class->counts(f.source, &counts);
    assert_int_equal(counts.events_lost, 1);
    assert_non_null(strstr(f.log_text.text, "1 ends of maps were not read within 3 s"));
    strbuf_done(&reading.text);
    fixture_done(&f);
}

static void what_was_read_whole_lacks_nothing(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct source_counts counts;
    process_make(&f, "/usr/bin/node");
    fixture_start(&f, config_make(&c)); // without a map
    f.class->stop(f.source);
    f.class->counts(f.source, &counts);
    assert_int_equal(counts.events_lost, 0);
    assert_null(f.log_text.text);
    assert_null(counts.problem);
    fixture_done(&f);
}

static void read_late(struct foreign_worker *worker, struct foreign_request *request,
                      struct foreign_answer *ret)
{
    usleep(3 * PERIOD / NSEC_PER_USEC);
    perf_map_read_job(worker, request, ret);
}

// The process ends while a request of the source is at the helper.
static void a_last_line_is_read_after_the_end(void **state)
{
    (void)state;
    char from[PATH_MAX], to[PATH_MAX];
    struct source_fixture f;
    struct configs c;
    struct source_counts counts;
    process_make(&f, "/usr/bin/node");
    read_by(&f, read_late);
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 last");
    fixture_start(&f, config_make(&c));
    snprintf(from, sizeof(from), "%s/proc/77", f.root);
    snprintf(to, sizeof(to), "%s/gone", f.root);
    assert_int_equal(rename(from, to), 0);
    fixture_run(&f, 12 * PERIOD);
    expect(&f, 1, "/tmp/perf-5.map", "10 8 last");
    f.class->stop(f.source);
    f.class->counts(f.source, &counts);
    assert_int_equal(counts.events_lost, 0);
    assert_null(f.log_text.text);
    fixture_done(&f);
}

static void a_process_that_may_not_be_looked_at_is_reported(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct source_counts counts;
    process_make(&f, "/usr/bin/node");
    read_by(&f, refuse_read);
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 3 * PERIOD);
    f.class->stop(f.source);
    struct wire_field map = last_map(&f);
    assert_int_equal(message_number(map.data, map.size, PB_PerfMap_pid), 77);
    assert_int_equal(message_number(map.data, map.size, PB_PerfMap_refused), 1);
    f.class->counts(f.source, &counts);
    assert_int_equal(counts.events, 1);
    assert_int_equal(counts.events_lost, 0);
    assert_non_null(strstr(counts.problem, "process 77 of user 0: the recorder may not look"));
    assert_string_equal(strchr(f.log_text.text, '\n'), "\n"); // once
    fixture_done(&f);
}

// A user who may not trace the process does not get its map. A message says so.
static void a_requester_who_may_not_trace_is_reported(void **state)
{
    (void)state;
    struct source_fixture f;
    struct configs c;
    struct source_counts counts;
    const struct requester requester = {.uid = 12345, .gid = 12345, .is_limited = true};
    process_make(&f, "/usr/bin/node");
    fixture_text(&f, "proc/77/root/tmp/perf-5.map", "10 8 a\n");
    f.env.requester = &requester;
    fixture_start(&f, config_make(&c));
    fixture_run(&f, 3 * PERIOD);
    f.class->stop(f.source);
    f.class->counts(f.source, &counts);
    assert_int_equal(counts.events, 1);
    assert_non_null(strstr(counts.problem, "may not trace it (root may)"));
    struct wire_field map = last_map(&f), text;
    assert_int_equal(message_number(map.data, map.size, PB_PerfMap_refused), 1);
    assert_false(message_field(map.data, map.size, PB_PerfMap_text, &text));
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_is_read_while_it_grows),
        cmocka_unit_test(times_beside_a_map_are_taken),
        cmocka_unit_test(a_map_outlives_its_process),
        cmocka_unit_test(a_replaced_map_is_another_one),
        cmocka_unit_test(places_of_android_are_known),
        cmocka_unit_test(what_is_not_the_process_s_is_not_read),
        cmocka_unit_test(a_map_has_a_limit),
        cmocka_unit_test(a_process_that_replaces_its_map_fills_neither_log_nor_trace),
        cmocka_unit_test(profiled_processes_are_meant_without_a_config),
        cmocka_unit_test(an_end_that_is_not_read_is_counted),
        cmocka_unit_test(what_was_read_whole_lacks_nothing),
        cmocka_unit_test(a_last_line_is_read_after_the_end),
        cmocka_unit_test(a_process_that_may_not_be_looked_at_is_reported),
        cmocka_unit_test(a_requester_who_may_not_trace_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
