// SPDX-License-Identifier: Apache-2.0
//
// Each process gets one request a second. Only the last answer before a dump goes into the trace,
// with the time of its arrival.
#include "producer/sources/heap/heap_malloc_info.h"

#include <string.h>

#include "protos/fields.h"

#define BYTES_AN_ARENA (8 * 11)

void malloc_info_keep(struct malloc_info *info, const struct heap_arenas *arenas, nsec_t time)
{
    info->time = time;
    info->mapped_bytes = arenas->mapped_bytes;
    info->n_mapped = arenas->n_mapped;
    info->n_arenas = arenas->n_arenas < HEAP_ARENAS_MAX ? arenas->n_arenas : HEAP_ARENAS_MAX;
    memcpy(info->arenas, arenas->arenas, info->n_arenas * sizeof(info->arenas[0]));
}

static void put_arena(struct wire_writer *w, const struct heap_arena *arena)
{
    size_t mark = wire_begin(w, PB_MallocInfo_arenas);
    wire_uint(w, PB_MallocInfo_Arena_index, arena->index);
    wire_uint(w, PB_MallocInfo_Arena_system_bytes, arena->system_bytes);
    wire_uint(w, PB_MallocInfo_Arena_max_system_bytes, arena->max_system_bytes);
    wire_uint(w, PB_MallocInfo_Arena_free_bytes, arena->free_bytes);
    wire_uint(w, PB_MallocInfo_Arena_free_chunks, arena->n_free);
    wire_uint(w, PB_MallocInfo_Arena_fast_bytes, arena->fast_bytes);
    wire_uint(w, PB_MallocInfo_Arena_fast_chunks, arena->n_fast);
    wire_end(w, mark);
}

void malloc_info_write(struct malloc_info *info, struct packet_writer *writer, int32_t pid)
{
    if (!info->time)
        return;
    struct wire_writer *w = packet_writer_begin_message(
        writer, info->time, 256 + info->n_arenas * BYTES_AN_ARENA, PB_TracePacket_malloc_info);
    if (!w)
        return;
    wire_uint(w, PB_MallocInfo_pid, (uint64_t)pid);
    for (uint32_t i = 0; i < info->n_arenas; i++)
        put_arena(w, &info->arenas[i]);
    wire_uint(w, PB_MallocInfo_mapped_bytes, info->mapped_bytes);
    wire_uint(w, PB_MallocInfo_mapped_chunks, info->n_mapped);
    packet_writer_end(writer);
    info->time = 0;
}
