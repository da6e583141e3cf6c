// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as begins and ends of overlapping slices. Three bytes make an event: begin or
// end, the cookie, and the time since the event before. Each begin of a cookie that is not open
// becomes a slice. A cookie that begins and ends once has a slice of this length. There are no more
// tracks than were in use at a time.
#include <string.h>

#include "common/wire.h"
#include "protos/fields.h"
#include "tests/fuzz/trace.h"

#define STEP       3
#define STEPS_MAX  1000
#define EVENT_ROOM 64
#define PRINT      3 // FtraceEvent.print
#define COOKIES    256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct cookie {
    bool is_open;
    unsigned n_begins, n_ends;
    int64_t begin, end;
};

static void print_put(struct wire_writer *w, int64_t ts, const char *text)
{
    enum { PRINT_BUF = 2 };
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)ts);
    wire_uint(w, PB_FtraceEvent_pid, 7);
    size_t print = wire_begin(w, PRINT);
    wire_bytes(w, PRINT_BUF, text, strlen(text));
    wire_end(w, print);
    wire_end(w, event);
}

// Returns the number of begins.
static unsigned events_put(struct wire_writer *w, const uint8_t *data, size_t size,
                           struct cookie *cookies, unsigned *ret_most)
{
    unsigned n_begins = 0, n_open = 0;
    int64_t ts = 1000;
    *ret_most = 0;
    for (size_t i = 0; i + STEP <= size && i < STEPS_MAX * STEP; i += STEP) {
        struct cookie *cookie = &cookies[data[i + 1]];
        bool begins = data[i] & 1;
        char text[32];
        ts += 1 + data[i + 2];
        snprintf(text, sizeof(text), "%c|7|name|%u", begins ? 'S' : 'F', data[i + 1]);
        print_put(w, ts, text);
        // An end takes a track, too, also if its cookie is not open.
        unsigned n_in_use = n_open + !cookie->is_open;
        n_begins += begins && !cookie->is_open;
        n_open = n_in_use - !begins;
        cookie->is_open = begins;
        if (n_in_use > *ret_most)
            *ret_most = n_in_use;
        *(begins ? &cookie->begin : &cookie->end) = ts;
        ++*(begins ? &cookie->n_begins : &cookie->n_ends);
    }
    return n_begins;
}

static int64_t number(struct database *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database_handle(db), sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(database_handle(db)));
        abort();
    }
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void cookie_check(struct database *db, const struct cookie *cookie)
{
    char sql[128];
    if (cookie->n_begins != 1 || cookie->n_ends != 1 || cookie->end < cookie->begin)
        return;
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM slice WHERE ts = %lld AND dur = %lld",
             (long long)cookie->begin, (long long)(cookie->end - cookie->begin));
    if (number(db, sql) != 1) {
        fprintf(stderr, "%s: none\n", sql);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cookie cookies[COOKIES] = {0};
    unsigned most;
    size_t room = EVENT_ROOM * (STEPS_MAX + 2);
    uint8_t *trace = malloc(room);
    if (!trace)
        return 0;
    struct wire_writer w = wire_writer_over(trace, room);
    size_t packet = wire_begin(&w, PB_Trace_packet);
    size_t bundle = wire_begin(&w, PB_TracePacket_ftrace_events);
    wire_uint(&w, PB_FtraceEventBundle_cpu, 0);
    unsigned n_begins = events_put(&w, data, size, cookies, &most);
    wire_end(&w, bundle);
    wire_end(&w, packet);
    if (w.overflow)
        abort();
    struct database *db = fuzz_convert(trace, wire_size(&w));
    int64_t lost = number(db, "SELECT coalesce(sum(value), 0) FROM stats "
                              "WHERE name = 'slice_max_depth_exceeded'");
    int64_t n_slices = number(db, "SELECT count(*) FROM slice");
    int64_t n_tracks = number(db, "SELECT count(*) FROM track");
    if (n_slices + lost != n_begins || n_tracks > most) {
        fprintf(stderr, "%u begins, %lld slices, %lld lost; %lld tracks for %u\n", n_begins,
                (long long)n_slices, (long long)lost, (long long)n_tracks, most);
        abort();
    }
    for (size_t i = 0; i < COOKIES; i++)
        cookie_check(db, &cookies[i]);
    database_free(db);
    free(trace);
    return 0;
}
