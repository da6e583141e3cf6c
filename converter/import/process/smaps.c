// SPDX-License-Identifier: Apache-2.0
//
// SmapsPacket: the mappings of a process with their sizes, single or summed by name. The newer form
// has a list for each column. A column without a list was not recorded and stays NULL.
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

static const char deleted_mark[] = " (deleted)";

static void path_cells(struct cell *row, const char *path, size_t size)
{
    size_t mark = sizeof(deleted_mark) - 1;
    bool is_deleted = size >= mark && memcmp(path + size - mark, deleted_mark, mark) == 0;
    cell_bytes(row, COL_profiler_smaps_path, path, size);
    cell_bytes(row, COL_profiler_smaps_path_trimmed, path, is_deleted ? size - mark : size);
    cell_int(row, COL_profiler_smaps_is_deleted, is_deleted);
}

#define NUMBER(name)                                                                               \
    {                                                                                              \
        PB_SmapsEntry_##name, COL_profiler_smaps_##name, false                                     \
    }
#define WORDS(name)                                                                                \
    {                                                                                              \
        PB_SmapsEntry_##name, COL_profiler_smaps_##name, true                                      \
    }

static void entry_read(struct import *im, int64_t ts, int64_t upid,
                       const struct wire_field *message)
{
    static const struct {
        uint32_t field, column;
        bool is_text;
    } columns[] = {
        NUMBER(size_kb),
        NUMBER(private_dirty_kb),
        NUMBER(swap_kb),
        WORDS(file_name),
        NUMBER(start_address),
        NUMBER(module_timestamp),
        WORDS(module_debugid),
        WORDS(module_debug_path),
        NUMBER(protection_flags),
        NUMBER(private_clean_resident_kb),
        NUMBER(shared_dirty_resident_kb),
        NUMBER(shared_clean_resident_kb),
        NUMBER(locked_kb),
        NUMBER(proportional_resident_kb),
    };
    MESSAGE(part, SmapsEntry, message);
    struct cell *row = database_row(im->db, TABLE_profiler_smaps, NULL);
    cell_int(row, COL_profiler_smaps_upid, upid);
    cell_int(row, COL_profiler_smaps_ts, ts);
    if (field_present(&part.path))
        path_cells(row, field_text(&part.path), part.path.size);
    else
        cell_int(row, COL_profiler_smaps_is_deleted, false);
    cell_int(row, COL_profiler_smaps_aggregate_count, 1);
    for (size_t i = 0; i < ELEMENTS(columns); i++) {
        const struct wire_field *field = &part.at[columns[i].field];
        if (!field_present(field))
            continue;
        if (columns[i].is_text)
            cell_bytes(row, columns[i].column, field->data, field->size);
        else
            cell_int(row, columns[i].column, field_i64(field));
    }
    import_bounds(im, ts);
}

struct list {
    struct values values;
    uint32_t column;
    bool present;
};

static struct list list_open(const struct wire_field *message, uint32_t number, uint32_t column)
{
    struct values values = values_of(message, number), probe = values;
    uint64_t value;
    return (struct list){
        .values = values, .column = column, .present = values_next(&probe, &value)};
}

VEC_DEFINE(name_vec, struct wire_field);

#define N_LISTS 12

// Writes a row from the next value of each list. False: the lists do not have the same length.
static bool packed_row(struct import *im, int64_t ts, int64_t upid, struct list *lists,
                       const struct wire_field *name, uint64_t count, bool has_count)
{
    uint64_t values[N_LISTS];
    for (size_t i = 0; i < N_LISTS; i++)
        if (lists[i].present && !values_next(&lists[i].values, &values[i]))
            return false;
    struct cell *row = database_row(im->db, TABLE_profiler_smaps, NULL);
    cell_int(row, COL_profiler_smaps_upid, upid);
    cell_int(row, COL_profiler_smaps_ts, ts);
    path_cells(row, field_text(name), name->size);
    cell_int(row, COL_profiler_smaps_aggregate_count, has_count ? (int64_t)count : 1);
    for (size_t i = 0; i < N_LISTS; i++)
        if (lists[i].present)
            cell_int(row, lists[i].column, (int64_t)values[i]);
    import_bounds(im, ts);
    return true;
}

static bool packed_read(struct import *im, int64_t ts, int64_t upid,
                        const struct wire_field *message, const struct name_vec *names)
{
    struct list lists[N_LISTS] = {
        list_open(message, PB_PackedSmaps_size_kb, COL_profiler_smaps_size_kb),
        list_open(message, PB_PackedSmaps_rss_kb, COL_profiler_smaps_rss_kb),
        list_open(message, PB_PackedSmaps_anonymous_kb, COL_profiler_smaps_anonymous_kb),
        list_open(message, PB_PackedSmaps_swap_kb, COL_profiler_smaps_swap_kb),
        list_open(message, PB_PackedSmaps_shared_clean_kb,
                  COL_profiler_smaps_shared_clean_resident_kb),
        list_open(message, PB_PackedSmaps_shared_dirty_kb,
                  COL_profiler_smaps_shared_dirty_resident_kb),
        list_open(message, PB_PackedSmaps_private_clean_kb,
                  COL_profiler_smaps_private_clean_resident_kb),
        list_open(message, PB_PackedSmaps_private_dirty_kb, COL_profiler_smaps_private_dirty_kb),
        list_open(message, PB_PackedSmaps_locked_kb, COL_profiler_smaps_locked_kb),
        list_open(message, PB_PackedSmaps_pss_kb, COL_profiler_smaps_proportional_resident_kb),
        list_open(message, PB_PackedSmaps_pss_dirty_kb, COL_profiler_smaps_pss_dirty_kb),
        list_open(message, PB_PackedSmaps_swap_pss_kb, COL_profiler_smaps_swap_pss_kb),
    };
    struct list ids = list_open(message, PB_PackedSmaps_name_id, 0);
    struct list counts = list_open(message, PB_PackedSmaps_aggregate_count, 0);
    bool aggregated = counts.present;
    uint64_t value;
    for (size_t i = 0; values_next(aggregated ? &counts.values : &ids.values, &value); i++) {
        uint64_t name = aggregated ? i : value;
        if (name >= names->n ||
            !packed_row(im, ts, upid, lists, &names->items[name], value, aggregated))
            return false;
    }
    for (size_t i = 0; i < N_LISTS; i++)
        if (values_next(&lists[i].values, &value))
            return false;
    return true;
}

static void smaps_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(head, SmapsPacket, packet->message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&head.pid));
    const struct wire_field *packed = &head.packed_entries;
    struct wire_reader reader = wire_sub(field_present(packed) ? packed : packet->message);
    struct wire_field field;
    struct name_vec names = {0};
    int r = 0;
    while (r == 0 && wire_next(&reader, &field)) {
        if (field_present(packed) && field.number == PB_PackedSmaps_string_table)
            r = name_vec_push(&names, field);
        else if (!field_present(packed) && field.number == PB_SmapsPacket_entries)
            entry_read(im, packet->ts, upid, &field);
    }
    if (r == 0 && field_present(packed) && !packed_read(im, packet->ts, upid, packed, &names))
        stats_add(&im->stats, STAT_smaps_parser_errors, 1);
    name_vec_done(&names);
    import_fail(im, r);
}

const struct importer importer_smaps = {
    .field = PB_TracePacket_smaps_packet,
    .sorted = smaps_sorted,
};
