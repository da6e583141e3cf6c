// SPDX-License-Identifier: Apache-2.0
//
// PerfMap: perf maps that were read while they grew (protos/trace/perf_map.proto). A piece has
// whole lines, so a piece can be read without the other pieces. Only the row of the map connects
// the pieces.
//
// A packet that trace_processor does not know creates no process, so that processes have the same
// numbers there: the finish creates processes that no other packet has named.
#include <errno.h>

#include "common/vec.h"
#include "converter/import/files/perf_map_lines.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct traced_map {
    int64_t id;   // row
    int64_t upid; // UPID_NONE: not known yet
    int64_t pid, n_symbols, n_bad;
    uint64_t next, next_time; // offsets of the next pieces in the files
    const uint8_t *path;      // borrowed from the trace
    size_t path_size;
};
VEC_DEFINE(traced_map_vec, struct traced_map);

struct traced_maps {
    struct strset keys; // sequence and the map's number there; ids are indexes in items
    struct traced_map_vec items;
};

static struct traced_map *map_of(struct import *im, struct traced_maps *maps, uint32_t sequence_id,
                                 const union message_PerfMap *head)
{
    uint64_t key[] = {sequence_id, field_u64(&head->map_id)};
    uint32_t index = strset_add(&maps->keys, (const char *)key, sizeof(key));
    if (index < maps->items.n)
        return &maps->items.items[index];
    struct traced_map map = {
        .id = database_reserve_id(im->db, TABLE_perf_map),
        .upid = UPID_NONE,
        .pid = (uint32_t)field_u64(&head->pid),
        .path = head->path.data,
        .path_size = head->path.size,
    };
    if (index != maps->items.n || traced_map_vec_push(&maps->items, map) < 0)
        return NULL;
    return &maps->items.items[index];
}

static void symbol_write(struct import *im, const struct traced_map *map, int64_t ts,
                         const struct perf_map_symbol *symbol)
{
    struct cell *row = database_row(im->db, TABLE_perf_map_symbol, NULL);
    cell_int(row, COL_perf_map_symbol_perf_map_id, map->id);
    cell_int(row, COL_perf_map_symbol_start, (int64_t)symbol->start);
    cell_int(row, COL_perf_map_symbol_size, (int64_t)symbol->size);
    cell_bytes(row, COL_perf_map_symbol_name, symbol->name.at, text_size(symbol->name));
    cell_int(row, COL_perf_map_symbol_first_ts, ts);
}

static void time_write(struct import *im, const struct traced_map *map,
                       const struct perf_map_time *time)
{
    int64_t ts;
    struct cell *row = database_row(im->db, TABLE_perf_map_code, NULL);
    cell_int(row, COL_perf_map_code_perf_map_id, map->id);
    if (time->ts && import_time(im, CLOCK_ID_BOOTTIME, time->ts, &ts))
        cell_int(row, COL_perf_map_code_ts, ts);
    cell_int(row, COL_perf_map_code_start, (int64_t)time->start);
    if (time->has_size)
        cell_int(row, COL_perf_map_code_size, (int64_t)time->size);
}

static void times_read(struct import *im, struct traced_map *map, const struct wire_field *text)
{
    struct lines lines = lines_over(text->data, text->size);
    struct span line;
    while (lines_next_full(&lines, &line)) {
        struct perf_map_time time;
        if (perf_map_time_read(line, &time))
            map->n_bad++;
        else
            time_write(im, map, &time);
    }
}

static void symbols_read(struct import *im, struct traced_map *map, int64_t ts,
                         const struct wire_field *text)
{
    struct lines lines = lines_over(text->data, text->size);
    struct span line;
    while (lines_next_full(&lines, &line)) {
        struct perf_map_symbol symbol;
        if (perf_map_symbol_read(line, &symbol)) {
            map->n_bad++;
        } else {
            symbol_write(im, map, ts, &symbol);
            map->n_symbols++;
        }
    }
}

// Moves *next past the piece, and counts a gap before the piece.
static void piece_follow(struct import *im, uint64_t *next, const struct wire_field *offset,
                         const struct wire_field *piece)
{
    uint64_t begin = field_u64(offset);
    if (begin > *next)
        stats_add(&im->stats, STAT_mmsql_perf_map_incomplete, 1);
    *next = begin + piece->size;
}

// Counts data that the recorder could not read. True: the packet has no other data.
static bool ends_tell(struct import *im, const union message_PerfMap *head)
{
    if (field_u64(&head->refused)) {
        stats_add(&im->stats, STAT_mmsql_perf_map_refused, 1);
        return true;
    }
    if (!field_present(&head->unread_bytes))
        return false;
    stats_add(&im->stats, STAT_mmsql_perf_map_incomplete, 1);
    stats_add(&im->stats, STAT_mmsql_perf_map_unread_bytes,
              (int64_t)field_u64(&head->unread_bytes));
    return true;
}

static void perf_map_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(head, PerfMap, packet->message);
    const struct wire_field *text = &head.text, *times = &head.times;
    if (ends_tell(im, &head))
        return;
    struct traced_map *map = map_of(im, packet->own, packet->sequence_id, &head);
    if (!map) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (map->upid == UPID_NONE && processes_find(&im->processes, map->pid))
        map->upid = processes_process(&im->processes, map->pid);
    if (field_u64(&head.cut))
        stats_add(&im->stats, STAT_mmsql_perf_map_incomplete, 1);
    if (text->size) {
        piece_follow(im, &map->next, &head.offset, text);
        symbols_read(im, map, packet->ts, text);
    }
    if (times->size) {
        piece_follow(im, &map->next_time, &head.times_offset, times);
        times_read(im, map, times);
    }
}

static void perf_map_finish(struct import *im, void *userdata)
{
    struct traced_maps *maps = userdata;
    vec_foreach(&maps->items, map) {
        if (map->upid == UPID_NONE)
            map->upid = processes_process(&im->processes, map->pid);
        struct cell *row = database_row_with_id(im->db, TABLE_perf_map, map->id);
        cell_bytes(row, COL_perf_map_path, map->path, map->path_size);
        cell_int(row, COL_perf_map_pid, map->pid);
        cell_int(row, COL_perf_map_upid, map->upid);
        cell_int(row, COL_perf_map_n_symbols, map->n_symbols);
        cell_int(row, COL_perf_map_n_bad_lines, map->n_bad);
    }
}

static void perf_map_done(void *userdata)
{
    struct traced_maps *maps = userdata;
    strset_done(&maps->keys);
    traced_map_vec_done(&maps->items);
}

const struct importer importer_perf_map = {
    .field = PB_TracePacket_perf_map,
    .sorted = perf_map_sorted,
    .state_size = sizeof(struct traced_maps),
    .finish = perf_map_finish,
    .done = perf_map_done,
};
