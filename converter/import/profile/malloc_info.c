// SPDX-License-Identifier: Apache-2.0
//
// MallocInfo: memory of the allocator of a profiled process. Each arena has a row, and the memory
// outside of arenas has a row.
//
// A packet that trace_processor does not know creates no process, so that processes have the same
// numbers there: a packet of a process that no other packet has named yet waits for the end.
#include <errno.h>

#include "common/elements.h"
#include "common/vec.h"
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

struct waiting_info {
    int64_t ts;
    struct wire_field message; // borrowed from the trace
};
VEC_DEFINE(waiting_vec, struct waiting_info);

static void info_write(struct import *im, int64_t ts, const struct wire_field *message, int64_t pid)
{
    MESSAGE(info, MallocInfo, message);
    int64_t upid = processes_process(&im->processes, pid);
    for (struct fields each = fields_of(message, PB_MallocInfo_arenas); fields_next(&each);)
        arena_read(im, ts, upid, &each.field);
    struct cell *row = begin_row(im, ts, upid);
    cell_int(row, COL_malloc_arena_system_bytes, field_i64(&info.mapped_bytes));
    cell_int(row, COL_malloc_arena_free_bytes, 0);
    cell_int(row, COL_malloc_arena_fast_bytes, 0);
    cell_int(row, COL_malloc_arena_mapped_chunks, field_i64(&info.mapped_chunks));
}

static void malloc_info_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(head, MallocInfo, packet->message);
    uint32_t pid = (uint32_t)field_u64(&head.pid);
    struct waiting_info info = {.ts = packet->ts, .message = *packet->message};
    import_bounds(im, packet->ts);
    if (processes_find(&im->processes, pid))
        info_write(im, packet->ts, packet->message, pid);
    else if (waiting_vec_push(packet->own, info) < 0)
        import_fail(im, -ENOMEM);
}

static void malloc_info_finish(struct import *im, void *userdata)
{
    const struct waiting_vec *waiting = userdata;
    vec_foreach(waiting, info) {
        MESSAGE(head, MallocInfo, &info->message);
        info_write(im, info->ts, &info->message, (uint32_t)field_u64(&head.pid));
    }
}

static void malloc_info_done(void *userdata)
{
    waiting_vec_done(userdata);
}

const struct importer importer_malloc_info = {
    .field = PB_TracePacket_malloc_info,
    .sorted = malloc_info_sorted,
    .state_size = sizeof(struct waiting_vec),
    .finish = malloc_info_finish,
    .done = malloc_info_done,
};
