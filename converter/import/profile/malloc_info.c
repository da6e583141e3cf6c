// SPDX-License-Identifier: Apache-2.0
//
// MallocInfo: memory of the allocator of a profiled process. Each arena has a row, and the memory
// outside of arenas has a row.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

static struct cell *begin_row(struct import *im, int64_t ts, int64_t upid)
{
    struct cell *row = database_row(im->db, TABLE_malloc_arena, NULL);
    cell_int(row, COL_malloc_arena_ts, ts);
    cell_int(row, COL_malloc_arena_upid, upid);
    return row;
}

#define ARENA(name)                                                                                \
    {                                                                                              \
        PB_MallocInfo_Arena_##name, COL_malloc_arena_##name                                        \
    }

static void arena_read(struct import *im, int64_t ts, int64_t upid,
                       const struct wire_field *message)
{
    MESSAGE(arena, MallocInfo_Arena, message);
    static const struct {
        uint32_t field, column;
    } columns[] = {
        ARENA(system_bytes), ARENA(max_system_bytes), ARENA(free_bytes),
        ARENA(free_chunks),  ARENA(fast_bytes),       ARENA(fast_chunks),
    };
    struct cell *row = begin_row(im, ts, upid);
    cell_int(row, COL_malloc_arena_arena, field_i64(&arena.index));
    for (size_t i = 0; i < ELEMENTS(columns); i++)
        cell_number(row, columns[i].column, &arena.at[columns[i].field]);
}

static void malloc_info_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(info, MallocInfo, packet->message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&info.pid));
    for (struct fields each = fields_of(packet->message, PB_MallocInfo_arenas); fields_next(&each);)
        arena_read(im, packet->ts, upid, &each.field);
    struct cell *row = begin_row(im, packet->ts, upid);
    cell_int(row, COL_malloc_arena_system_bytes, field_i64(&info.mapped_bytes));
    cell_int(row, COL_malloc_arena_free_bytes, 0);
    cell_int(row, COL_malloc_arena_fast_bytes, 0);
    cell_int(row, COL_malloc_arena_mapped_chunks, field_i64(&info.mapped_chunks));
    import_bounds(im, packet->ts);
}

const struct importer importer_malloc_info = {
    .field = PB_TracePacket_malloc_info,
    .sorted = malloc_info_sorted,
};
