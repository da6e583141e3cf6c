// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a recorded perf map and, after the first zero byte, as its runtime's file of
// times. There are samples at 16 addresses and 8 times; each must get the name that a search
// through all symbols finds.
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/wire.h"
#include "converter/symbols/perf_map_frames.h"
#include "protos/fields.h"
#include "tests/fuzz/trace.h"

#define ADDRESSES 16
#define TIMES     8
#define MAP_START 0x1000u
#define ROOM      8192 // bytes of the trace that are not input

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t packet_begin(struct wire_writer *w, uint64_t ts)
{
    size_t packet = wire_begin(w, PB_Trace_packet);
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, 2);
    wire_uint(w, PB_TracePacket_timestamp, ts);
    return packet;
}

static void stacks_put(struct wire_writer *w)
{
    size_t packet = packet_begin(w, 1);
    wire_uint(w, PB_TracePacket_sequence_flags, 1);
    size_t interned = wire_begin(w, PB_TracePacket_interned_data);
    size_t mark = wire_begin(w, PB_InternedData_mappings);
    wire_uint(w, PB_Mapping_iid, 1);
    wire_uint(w, PB_Mapping_start, MAP_START);
    wire_uint(w, PB_Mapping_end, MAP_START * 2);
    wire_end(w, mark);
    for (unsigned i = 1; i <= ADDRESSES; i++) {
        mark = wire_begin(w, PB_InternedData_frames);
        wire_uint(w, PB_Frame_iid, i);
        wire_uint(w, PB_Frame_mapping_id, 1);
        wire_uint(w, PB_Frame_rel_pc, i * 0x10);
        wire_end(w, mark);
        mark = wire_begin(w, PB_InternedData_callstacks);
        wire_uint(w, PB_Callstack_iid, i);
        wire_uint(w, PB_Callstack_frame_ids, i);
        wire_end(w, mark);
    }
    wire_end(w, interned);
    wire_end(w, packet);
}

static void samples_put(struct wire_writer *w)
{
    for (unsigned ts = 1; ts <= TIMES; ts++)
        for (unsigned i = 1; i <= ADDRESSES; i++) {
            size_t packet = packet_begin(w, ts * 100);
            wire_uint(w, PB_TracePacket_sequence_flags, 2);
            size_t sample = wire_begin(w, PB_TracePacket_perf_sample);
            wire_uint(w, PB_PerfSample_pid, 7);
            wire_uint(w, PB_PerfSample_tid, 7);
            wire_uint(w, PB_PerfSample_callstack_iid, i);
            wire_end(w, sample);
            wire_end(w, packet);
        }
}

// Writes the map in two packets, so that lines without times have two moments.
static void map_put(struct wire_writer *w, const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    size_t n = zero ? (size_t)(zero - data) : size;
    const uint8_t *newline = memrchr(data, '\n', n / 2);
    size_t first = newline ? (size_t)(newline - data) + 1 : 0;
    for (int part = 0; part < 2; part++) {
        size_t packet = packet_begin(w, part ? 550 : 250);
        size_t map = wire_begin(w, PB_TracePacket_perf_map);
        wire_uint(w, PB_PerfMap_pid, 7);
        wire_uint(w, PB_PerfMap_map_id, 1);
        wire_uint(w, PB_PerfMap_offset, part ? first : 0);
        wire_bytes(w, PB_PerfMap_text, data + (part ? first : 0), part ? n - first : first);
        if (part && zero)
            wire_bytes(w, PB_PerfMap_times, zero + 1, size - n - 1);
        wire_end(w, map);
        wire_end(w, packet);
    }
}

// Counts the samples for which the look-up and a search through all symbols differ.
static const char wrong_sql[] =
    "WITH sample AS (SELECT s.id, s.ts, f.id AS frame_id, m.start + f.rel_pc AS pc "
    "FROM perf_sample s JOIN stack_profile_callsite c ON c.id = s.callsite_id "
    "JOIN stack_profile_frame f ON f.id = c.frame_id "
    "JOIN stack_profile_mapping m ON m.id = f.mapping),"
    "covers AS (SELECT s.id, s.ts, y.id AS symbol_id, y.last_ts, coalesce(y.first_ts, -1) AS made "
    "FROM sample s JOIN perf_map_symbol y ON y.start >= 0 AND y.start <= s.pc "
    "AND (y.size < 0 OR s.pc - y.start < y.size)),"
    "best AS (SELECT *, row_number() OVER (PARTITION BY id ORDER BY made <= ts DESC, "
    "iif(made <= ts, made, -made) DESC, symbol_id DESC) AS nth FROM covers),"
    "wanted AS (SELECT id, symbol_id FROM best "
    "WHERE nth = 1 AND NOT (made <= ts AND coalesce(last_ts, ts + 1) <= ts)),"
    "got AS (SELECT s.id, p.symbol_id FROM sample s JOIN perf_map_frame p "
    "ON p.frame_id = s.frame_id AND s.ts BETWEEN p.first_ts AND p.last_ts) "
    "SELECT count(*) FROM (SELECT * FROM (SELECT * FROM wanted EXCEPT SELECT * FROM got) "
    "UNION ALL SELECT * FROM (SELECT * FROM got EXCEPT SELECT * FROM wanted))";

static void expect(sqlite3 *handle, const char *sql, int64_t want)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW || sqlite3_column_int64(statement, 0) != want) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(handle));
        abort();
    }
    sqlite3_finalize(statement);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    size_t room = size + ROOM;
    uint8_t *trace = malloc(room);
    if (!trace)
        return 0;
    struct wire_writer w = wire_writer_over(trace, room);
    stacks_put(&w);
    map_put(&w, data, size);
    samples_put(&w);
    if (w.overflow)
        abort();
    struct database *db = fuzz_convert(trace, wire_size(&w));
    if (perf_map_frames_name(database_handle(db), &err) < 0) {
        fprintf(stderr, "naming frames failed: %s\n", err.text);
        abort();
    }
    expect(database_handle(db), "SELECT count(*) FROM perf_sample", ADDRESSES * TIMES);
    expect(database_handle(db), wrong_sql, 0);
    database_free(db);
    free(trace);
    return 0;
}
