// SPDX-License-Identifier: Apache-2.0
//
// glibc maps an arena as 64 aligned MiB, whose end may not be accessible yet. A thread's stack has
// a guard at its lower end. Both are one mmap() whose parts the kernel lists side by side. The
// mapping after a mapping decides whether it is an arena, so a mapping is counted when the next
// mapping begins.
//
// The text can be long, and the kernel makes it line by line. It is read in pieces, and only the
// sums are kept.
#include "producer/sources/heap/heap_smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/maps.h"
#include "producer/heap/heap_abi.h"
#include "protos/fields.h"

#define ARENA_BYTES      (UINT64_C(64) << 20)
#define GUARD_MAX        (UINT64_C(64) << 10)
#define NAMES_MAX        4096
#define PIECE            32768
#define NAME_ANONYMOUS   "[anon]"
#define NAME_ARENA       "[anon:malloc arena]"
#define NAME_STACK       "[anon:thread stack]"
#define NAME_LIBRARY     "[anon:" HEAP_LIBRARY_FILE "]"
#define NAME_REST        "[others]"
#define LIBRARY_DATA_MAX (UINT64_C(34) << 20) // of libmmheap.so, after its file mappings
#define BYTES_A_NUMBER   6                    // of the varint of a size in kB up to 4 TiB

static const struct {
    const char *key;
    enum smaps_column column;
    uint32_t field;
} columns[N_SMAPS_COLUMNS] = {
    {"Size:", SMAPS_SIZE, PB_PackedSmaps_size_kb},
    {"Rss:", SMAPS_RSS, PB_PackedSmaps_rss_kb},
    {"Pss:", SMAPS_PSS, PB_PackedSmaps_pss_kb},
    {"Pss_Dirty:", SMAPS_PSS_DIRTY, PB_PackedSmaps_pss_dirty_kb},
    {"Shared_Clean:", SMAPS_SHARED_CLEAN, PB_PackedSmaps_shared_clean_kb},
    {"Shared_Dirty:", SMAPS_SHARED_DIRTY, PB_PackedSmaps_shared_dirty_kb},
    {"Private_Clean:", SMAPS_PRIVATE_CLEAN, PB_PackedSmaps_private_clean_kb},
    {"Private_Dirty:", SMAPS_PRIVATE_DIRTY, PB_PackedSmaps_private_dirty_kb},
    {"Anonymous:", SMAPS_ANONYMOUS, PB_PackedSmaps_anonymous_kb},
    {"Swap:", SMAPS_SWAP, PB_PackedSmaps_swap_kb},
    {"SwapPss:", SMAPS_SWAP_PSS, PB_PackedSmaps_swap_pss_kb},
    {"Locked:", SMAPS_LOCKED, PB_PackedSmaps_locked_kb},
};

static uint32_t name_add(struct smaps *smaps, const char *text, size_t size)
{
    if (smaps->names.n >= NAMES_MAX && strset_find(&smaps->names, text, size) == STRSET_NONE) {
        text = NAME_REST;
        size = strlen(NAME_REST);
    }
    uint32_t name = strset_add(&smaps->names, text, size);
    smaps->failed |= name == STRSET_NONE;
    if (name == smaps->rows.n)
        smaps->failed |= smaps_row_vec_push(&smaps->rows, (struct smaps_row){0}) < 0;
    return name;
}

// Returns the name of an anonymous mapping of glibc or of libmmheap.so; otherwise NULL. `next` is
// the mapping after `mapping`.
static const char *glibc_name(const struct smaps_mapping *mapping, const struct smaps_mapping *next)
{
    if (!mapping->is_anonymous || mapping->is_guard)
        return NULL;
    if (mapping->library_end)
        return NAME_LIBRARY;
    uint64_t offset = mapping->start % ARENA_BYTES;
    if (offset == 0 && mapping->end - mapping->start <= ARENA_BYTES &&
        (mapping->end - mapping->start == ARENA_BYTES ||
         (next->is_guard && next->start == mapping->end &&
          next->end >= mapping->start + ARENA_BYTES)))
        return NAME_ARENA;
    return mapping->guard_before && mapping->guard_before <= GUARD_MAX ? NAME_STACK : NULL;
}

static void mapping_end(struct smaps *smaps, const struct smaps_mapping *next)
{
    const struct smaps_mapping *mapping = &smaps->mapping;
    if (!mapping->is_open)
        return;
    const char *better = glibc_name(mapping, next);
    uint32_t name = better ? name_add(smaps, better, strlen(better)) : mapping->name;
    if (smaps->failed)
        return;
    struct smaps_row *row = &smaps->rows.items[name];
    row->n_mappings++;
    for (size_t i = 0; i < N_SMAPS_COLUMNS; i++)
        row->kb[i] += mapping->kb[i];
}

static void mapping_begin(struct smaps *smaps, const struct mapping *head)
{
    const struct smaps_mapping *before = &smaps->mapping;
    struct smaps_mapping next = {
        .is_open = true,
        .is_anonymous = head->path_size == 0,
        .is_guard = head->path_size == 0 && str_starts_with(head->permissions, "---"),
        .start = head->start,
        .end = head->end,
    };
    if (before->is_guard && before->end == next.start)
        next.guard_before = before->end - before->start;
    if (next.is_anonymous && before->end == next.start && before->library_end &&
        next.end - before->library_end <= LIBRARY_DATA_MAX)
        next.library_end = before->library_end;
    mapping_end(smaps, &next);
    if (!next.is_anonymous &&
        memmem(head->path, head->path_size, HEAP_LIBRARY_FILE, strlen(HEAP_LIBRARY_FILE)))
        next.library_end = next.end;
    next.name = next.is_anonymous ? name_add(smaps, NAME_ANONYMOUS, strlen(NAME_ANONYMOUS))
                                  : name_add(smaps, head->path, head->path_size);
    smaps->mapping = next;
}

void smaps_add_line(struct smaps *smaps, struct span line)
{
    struct mapping head;
    for (size_t i = 0; i < N_SMAPS_COLUMNS; i++) {
        struct span rest = line;
        uint64_t kb;
        if (span_take_prefix(&rest, columns[i].key) && span_take_u64(&rest, &kb)) {
            smaps->mapping.kb[columns[i].column] = kb;
            return;
        }
    }
    if (mapping_parse(line.pos, span_size(line), &head))
        mapping_begin(smaps, &head);
}

void smaps_finish(struct smaps *smaps)
{
    const struct smaps_mapping none = {0};
    mapping_end(smaps, &none);
    smaps->mapping = none;
}

void smaps_done(struct smaps *smaps)
{
    strset_done(&smaps->names);
    smaps_row_vec_done(&smaps->rows);
    *smaps = (struct smaps){0};
}

static int read_text(struct smaps *smaps, struct process_file *file)
{
    char piece[PIECE];
    size_t kept = 0;
    for (ssize_t n; (n = process_file_read(file, piece + kept, sizeof(piece) - kept)) != 0;) {
        if (n < 0)
            return (int)n;
        struct span text = span_over(piece, kept + (size_t)n);
        struct span lines = span_whole_lines(text), line, rest = lines;
        while (span_take_line(&rest, &line))
            smaps_add_line(smaps, line);
        kept = (size_t)(text.end - lines.end);
        memmove(piece, lines.end, kept);
        if (kept == sizeof(piece))
            return -EOVERFLOW;
    }
    smaps_finish(smaps);
    return smaps->failed ? -ENOMEM : smaps->rows.n == 0 ? -ESRCH : 0;
}

static void put_rows(const struct smaps *smaps, struct wire_writer *w)
{
    for (uint32_t i = 0; i < smaps->names.n; i++)
        wire_text(w, PB_PackedSmaps_string_table, smaps->names.entries[i].text,
                  smaps->names.entries[i].size);
    size_t mark = wire_begin(w, PB_PackedSmaps_aggregate_count);
    vec_foreach(&smaps->rows, row)
        wire_varint(w, row->n_mappings);
    wire_end(w, mark);
    for (size_t i = 0; i < N_SMAPS_COLUMNS; i++) {
        mark = wire_begin(w, columns[i].field);
        vec_foreach(&smaps->rows, row)
            wire_varint(w, row->kb[columns[i].column]);
        wire_end(w, mark);
    }
}

static size_t room_for(const struct smaps *smaps)
{
    size_t room = 256 + smaps->rows.n * (N_SMAPS_COLUMNS + 1) * BYTES_A_NUMBER;
    for (uint32_t i = 0; i < smaps->names.n; i++)
        room += smaps->names.entries[i].size + 4;
    return room;
}

static int packet_write(const struct smaps *smaps, struct packet_writer *writer, int32_t pid)
{
    struct wire_writer *w = packet_writer_begin_message(
        writer, nsec_now(CLOCK_BOOTTIME), room_for(smaps), PB_TracePacket_smaps_packet);
    if (!w)
        return -ENOSPC;
    wire_uint(w, PB_SmapsPacket_pid, (uint64_t)pid);
    size_t mark = wire_begin(w, PB_SmapsPacket_packed_entries);
    put_rows(smaps, w);
    wire_end(w, mark);
    wire_uint(w, PB_SmapsPacket_recording_type, PB_RECORDING_TYPE_STANDALONE);
    return packet_writer_end(writer) ? 0 : -ENOSPC;
}

int smaps_write(struct packet_writer *writer, const char *proc, int32_t pid)
{
    struct smaps smaps CLEANUP(smaps_done) = {0};
    struct process_file file CLEANUP(process_file_close) = {.fd = -1};
    int r = process_file_open(&file, proc, pid, "smaps", 0);
    if (r == 0)
        r = read_text(&smaps, &file);
    return r == 0 ? packet_write(&smaps, writer, pid) : r;
}
