// SPDX-License-Identifier: Apache-2.0
//
// The indexes serve the usual joins, time windows and sums, and no more: every index costs time and
// space.
#include "converter/tables/indexes.h"

#define N_BYTES(...) sizeof((uint8_t[]){__VA_ARGS__})
#define COLUMNS(...)                                                                               \
    .columns = {__VA_ARGS__}, .n_columns = N_BYTES(__VA_ARGS__), .n_key = N_BYTES(__VA_ARGS__)

const struct index_def index_defs[N_INDEXES] = {
    [INDEX_ARG_SET_BY_KIND] = {"arg_set_by_kind", TABLE__arg_set,
                               COLUMNS(COL__arg_set_kind_id, COL__arg_set_ts)},
    [INDEX_COUNTER] = {.name = "counter",
                       .table = TABLE_counter,
                       .columns = {COL_counter_track_id, COL_counter_ts, COL_counter_id,
                                   COL_counter_value, COL_counter_arg_set_id},
                       .n_columns = N_COL_counter,
                       .n_key = 3,
                       .is_table = true},
    [INDEX_SCHED_SLICE_BY_THREAD] = {"sched_slice_by_thread", TABLE_sched_slice,
                                     COLUMNS(COL_sched_slice_utid, COL_sched_slice_ts,
                                             COL_sched_slice_dur)},
    [INDEX_SLICE_BY_NAME] = {"slice_by_name", TABLE_slice, COLUMNS(COL_slice_name),
                             .is_text = true},
    [INDEX_SLICE_BY_TIME] = {"slice_by_time", TABLE_slice, COLUMNS(NO_GROUP, COL_slice_ts)},
    [INDEX_SLICE_BY_TRACK] = {"slice_by_track", TABLE_slice,
                              COLUMNS(COL_slice_track_id, COL_slice_ts)},
    [INDEX_THREAD_STATE_BY_THREAD] = {"thread_state_by_thread", TABLE_thread_state,
                                      COLUMNS(COL_thread_state_utid, COL_thread_state_ts,
                                              COL_thread_state_dur, COL_thread_state_state)},
};

static const char *stored_column_name(const struct table_def *def, size_t place)
{
    for (size_t i = 0; i < def->n_columns; i++)
        if (!def->columns[i].generated && place-- == 0)
            return def->columns[i].name;
    return "";
}

const struct index_def *table_cluster(enum table_id table)
{
    return table == TABLE_counter ? &index_defs[INDEX_COUNTER] : NULL;
}

void cluster_sql(struct strbuf *sql, const struct index_def *def)
{
    for (size_t i = 0; i < def->n_key; i++)
        strbuf_addf(sql, "%s\"%s\"", i ? ", " : ", PRIMARY KEY(",
                    stored_column_name(&table_defs[def->table], def->columns[i]));
    strbuf_add_str(sql, ")) WITHOUT ROWID");
}

void index_sql(struct strbuf *sql, const struct index_def *def)
{
    const struct table_def *table = &table_defs[def->table];
    strbuf_addf(sql, "CREATE INDEX %s ON %s", def->name, table->stored_name);
    size_t first = index_has_group(def) ? 0 : 1;
    for (size_t i = first; i < def->n_columns; i++)
        strbuf_addf(sql, "%s%s", i > first ? ", " : "(",
                    stored_column_name(table, def->columns[i]));
    strbuf_add_str(sql, ")");
}

// The first two indexes serve sums by process without sorting: the processes come in the order of
// names, and each process leads to its threads.
const char small_indexes_sql[] =
    "CREATE INDEX process_by_name ON _process(name);"
    "CREATE INDEX thread_by_process ON _thread(upid);"
    "CREATE INDEX page_residency_sample_by_file ON page_residency_sample(file_id, ts);"
    "CREATE INDEX page_residency_span_by_file ON _page_residency_span(file_id, last_sample_id);"
    "CREATE INDEX arg_field_by_kind ON _arg_field(kind_id, slot);"
    "CREATE INDEX arg_more_by_set ON _arg_more(arg_set_id, slot);";

const char counter_ids_sql[] = "CREATE INDEX counter_by_id ON counter(id);";

// The number of entries of an index that ANALYZE reads: enough for approximate statistics.
#define LIMIT "PRAGMA analysis_limit=20000;"

// SQLite prefers an index that has all columns of a statement to a scan of the table if the entries
// of the index are smaller. Rows of a statement without ORDER BY would come in the order of names,
// while people expect the order of ids. Therefore the statistics say that an entry has 200 bytes,
// which is more than SQLite assumes for a row.
#define TEXT_INDEX_SIZE                                                                            \
    "UPDATE sqlite_stat1 SET stat = stat || ' sz=200' WHERE idx = 'slice_by_name';"

const char text_index_size_sql[] = TEXT_INDEX_SIZE;
const char analyze_sql[] = LIMIT "ANALYZE;" TEXT_INDEX_SIZE;
const char small_indexes_analyze_sql[] =
    LIMIT "ANALYZE _process; ANALYZE _thread; ANALYZE page_residency_sample;"
          "ANALYZE _page_residency_span; ANALYZE _arg_field; ANALYZE _arg_more;";
