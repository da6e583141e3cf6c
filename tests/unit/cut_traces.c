// SPDX-License-Identifier: Apache-2.0
//
// Traces that end too early, cut at every byte or packet: the conversion says so, and its rows are
// rows of the whole trace. A row has only columns that the missing part cannot change: a slice
// whose end is cut off begins where it began.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/str.h"
#include "common/wire.h"
#include "converter/import/import_trace.h"
#include "tests/unit/unit.h"

#define TRACE_MAX ((size_t)64 << 10)
#define BORDERS   8

// One column each: the text of a row.
static const char *const questions[] = {
    "SELECT 'e ' || ts || ' ' || name || ' ' || ucpu FROM ftrace_event",
    // A frame has a number in place of a name until the frame is queued.
    "SELECT 's ' || ts || ' ' || depth || ' ' || iif(t.type = 'graphics_frame_event', '', "
    "coalesce(s.name, '')) FROM slice s JOIN _track t ON t.id = track_id",
    // A GPU tells the value of a counter with the next reading.
    "SELECT 'c ' || ts || ' ' || value || ' ' || t.name FROM counter JOIN _track t ON t.id = "
    "track_id WHERE t.type NOT LIKE 'gpu_counter%'",
    "SELECT 'r ' || ts || ' ' || tid || ' ' || priority FROM sched_slice JOIN thread USING (utid)",
    // A later packet may bring the state.
    "SELECT 't ' || ts || ' ' || tid FROM thread_state JOIN thread USING (utid)",
    "SELECT 'p ' || pid FROM process",
    "SELECT 'h ' || tid FROM thread",
    "SELECT 'a ' || ts || ' ' || heap_name || ' ' || count || ' ' || size FROM "
    "heap_profile_allocation",
    "SELECT 'o ' || upid || ' ' || graph_sample_ts || ' ' || self_size FROM heap_graph_object",
    "SELECT 'l ' || ts || ' ' || tag || ' ' || msg FROM android_logs",
    "SELECT 'x ' || ts || ' ' || source FROM stack_sample",
    "SELECT 'k ' || clock_id || ' ' || clock_value FROM clock_snapshot",
    "SELECT 'm ' || ts || ' ' || coalesce(path, '') || ' ' || coalesce(size_kb, '') FROM "
    "profiler_smaps",
};
#define N_QUESTIONS ELEMENTS(questions)
struct rows {
    struct strset texts;
    struct map64 counts; // of each text
};

struct trace_file {
    char name[256];
    uint8_t bytes[TRACE_MAX];
    size_t size;
};

static void rows_done(struct rows *rows)
{
    strset_done(&rows->texts);
    map64_done(&rows->counts);
}

static void row_add(struct rows *rows, const char *text)
{
    bool is_new;
    uint64_t *count =
        map64_get_or_add(&rows->counts, strset_add(&rows->texts, text, strlen(text)), 0, &is_new);
    assert_non_null(count);
    ++*count;
}

static void rows_read(struct database *db, struct rows *ret)
{
    *ret = (struct rows){0};
    for (size_t i = 0; i < N_QUESTIONS; i++) {
        sqlite3_stmt *statement;
        assert_int_equal(
            sqlite3_prepare_v2(database_handle(db), questions[i], -1, &statement, NULL), SQLITE_OK);
        while (sqlite3_step(statement) == SQLITE_ROW)
            if (sqlite3_column_text(statement, 0))
                row_add(ret, (const char *)sqlite3_column_text(statement, 0));
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
}

static int64_t number_of(struct database *db, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(database_handle(db), sql, -1, &statement, NULL), SQLITE_OK);
    int64_t value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    return value;
}

static void convert(const uint8_t *bytes, size_t size, struct trace_result *result,
                    struct rows *ret)
{
    struct err err = {0};
    struct input *input = NULL;
    struct database *db = NULL;
    assert_int_equal(input_from_memory(bytes, size, &err, &input), 0);
    assert_int_equal(database_create(NULL, &err, &db), 0);
    assert_int_equal(import_trace(db, input, NULL, NULL, NULL, &err, result), 0);
    assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
    rows_read(db, ret);
    int64_t at = number_of(db, "SELECT value FROM stats WHERE name = 'mmsql_truncated_at'");
    assert_int_equal(at, result->truncated ? (int64_t)result->truncated_offset : 0);
    database_free(db);
    input_free(input);
}

// Asserts that `whole` has every row of `part`, at least as often.
static void rows_check(const struct rows *part, const struct rows *whole,
                       const struct trace_file *trace, size_t size)
{
    for (uint32_t id = 0; id < part->texts.n; id++) {
        const struct strset_entry *row = &part->texts.entries[id];
        uint32_t same = strset_find(&whole->texts, row->text, row->size);
        const uint64_t *n_whole = same == STRSET_NONE ? NULL : map64_find(&whole->counts, same);
        const uint64_t *n = map64_find(&part->counts, id);
        if (!n_whole || *n > *n_whole)
            fail_msg("%s cut at %zu has a row of its own: %s", trace->name, size, row->text);
    }
}

static size_t border_before(const struct trace_file *trace, size_t size)
{
    struct wire_reader reader = wire_reader_over(trace->bytes, trace->size);
    struct wire_field field;
    size_t border = 0;
    while (wire_next(&reader, &field) && (size_t)(reader.pos - trace->bytes) <= size)
        border = (size_t)(reader.pos - trace->bytes);
    return border;
}

// Checks the trace, cut at every byte, or at some borders of packets from the first to the last.
static void trace_check(const struct trace_file *trace, bool every_byte)
{
    struct rows whole, part;
    struct trace_result result;
    convert(trace->bytes, trace->size, &result, &whole);
    size_t step = every_byte ? 0 : trace->size / BORDERS, next = 0;
    for (size_t size = 1; size < trace->size; size++) {
        size_t border = border_before(trace, size);
        if (!every_byte && (size != border || size < next))
            continue;
        next = size + step;
        convert(trace->bytes, size, &result, &part);
        rows_check(&part, &whole, trace, size);
        assert_int_equal(result.truncated, size != border);
        if (result.truncated)
            assert_int_equal(result.truncated_offset, border);
        rows_done(&part);
    }
    rows_done(&whole);
}

static void trace_load(const char *folder, const char *name, struct trace_file *ret)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    ret->size = fread(ret->bytes, 1, sizeof(ret->bytes), file);
    fclose(file);
    assert_in_range(ret->size, 1, sizeof(ret->bytes) - 1);
}

static void at_every_byte(void **state)
{
    (void)state;
    static struct trace_file trace;
    trace_load(TEST_TRACES_DIR, "counters_tracks.pftrace", &trace);
    trace_check(&trace, true);
}

static void between_packets(void **state)
{
    (void)state;
    static const char *const names[] = {
        "android_state", "frames",         "ftrace_displays", "ftrace_gpu",        "ftrace_memory",
        "gpu",           "generic_kernel", "heap_continuous", "heap_graph_circle", "heap_profiles",
        "java_names",    "json",           "machines",        "memory_snapshots",  "perf_samples",
        "power",         "processes",      "profiles",        "streaming",         "track_events",
    };
    static struct trace_file trace;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.pftrace", names[i]);
        trace_load(TEST_TRACES_DIR, name, &trace);
        trace_check(&trace, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_byte),
        cmocka_unit_test(between_packets),
    };
    return cmocka_run_group_tests_name("cut_traces", tests, NULL, NULL);
}
