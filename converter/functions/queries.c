// SPDX-License-Identifier: Apache-2.0
//
// Functions that are queries. A function is called for every row, so its query is prepared once.
// The query is auxiliary data of the calling statement: if the query belonged to the function, the
// database could not be closed.
#include <stdint.h>

#include "common/elements.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

#define METADATA "SELECT coalesce(str_value, int_value) FROM metadata WHERE "

static const struct {
    const char *name;
    int n_arguments;
    const char *sql;
} queries[] = {
    {"trace_start", 0, "SELECT start_ts FROM trace_bounds"},
    {"trace_end", 0, "SELECT end_ts FROM trace_bounds"},
    {"trace_dur", 0, "SELECT end_ts - start_ts FROM trace_bounds"},
    {"slice_is_ancestor", 2,
     "WITH RECURSIVE up(id) AS (SELECT parent_id FROM slice WHERE id = ?2 UNION ALL "
     "SELECT s.parent_id FROM up JOIN slice s ON s.id = up.id WHERE s.parent_id IS NOT NULL) "
     "SELECT EXISTS (SELECT 1 FROM up WHERE id = ?1) FROM slice a CROSS JOIN slice d "
     "WHERE a.id = ?1 AND d.id = ?2"},
    {"extract_metadata", 1, METADATA "name = ?1 ORDER BY id LIMIT 1"},
    {"extract_metadata_for_machine", 2,
     METADATA "machine_id = ?1 AND name = ?2 ORDER BY id LIMIT 1"},
    {"extract_metadata_for_trace", 2, METADATA "trace_id = ?1 AND name = ?2 ORDER BY id LIMIT 1"},
    {"extract_exact_metadata", 3,
     METADATA "machine_id = ?1 AND trace_id = ?2 AND name = ?3 ORDER BY id LIMIT 1"},
    {"__intrinsic_perf_counter_for_sample", 2,
     "SELECT CAST(c.value AS REAL) FROM _profiler_sample s JOIN _profiler_counter_set p USING "
     "(counter_set_id) JOIN counter c ON c.id = p.counter_id JOIN track t ON t.id = c.track_id "
     "WHERE s.id = ?1 AND t.name = ?2 LIMIT 1"},
    {"time_from_ns", 1, "SELECT ?1"},
    {"time_from_us", 1, "SELECT ?1 * 1000"},
    {"time_from_ms", 1, "SELECT ?1 * 1000000"},
    {"time_from_s", 1, "SELECT ?1 * 1000000000"},
    {"time_from_min", 1, "SELECT ?1 * 60000000000"},
    {"time_from_h", 1, "SELECT ?1 * 3600000000000"},
    {"time_to_ns", 1, "SELECT ?1"},
    {"time_to_us", 1, "SELECT ?1 / 1000"},
    {"time_to_ms", 1, "SELECT ?1 / 1000000"},
    {"time_to_s", 1, "SELECT ?1 / 1000000000"},
    {"time_to_min", 1, "SELECT ?1 / 60000000000"},
    {"time_to_h", 1, "SELECT ?1 / 3600000000000"},
};

#define N_QUERIES ELEMENTS(queries)
static void statement_free(void *statement)
{
    sqlite3_finalize(statement);
}

// Returns the prepared query. SQLite shares auxiliary data of negative numbers among all calls in
// one statement.
static sqlite3_stmt *query_statement(sqlite3_context *context, size_t index)
{
    int key = SHARED_QUERIES - (int)index;
    sqlite3_stmt *statement = sqlite3_get_auxdata(context, key);
    sqlite3 *handle = sqlite3_context_db_handle(context);
    if (statement)
        return statement;
    if (sqlite3_prepare_v2(handle, queries[index].sql, -1, &statement, NULL) != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, key, statement, statement_free);
    return sqlite3_get_auxdata(context, key);
}

// Returns the first column of the query's row.
static void query_call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    size_t index = (size_t)(uintptr_t)sqlite3_user_data(context);
    sqlite3_stmt *statement = query_statement(context, index);
    if (!statement)
        return;
    for (int i = 0; i < argc; i++)
        sqlite3_bind_value(statement, i + 1, argv[i]);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        sqlite3_result_value(context, sqlite3_column_value(statement, 0));
    else if (code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
    sqlite3_reset(statement);
}

int query_functions_register(sqlite3 *handle)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < N_QUERIES && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(handle, queries[i].name, queries[i].n_arguments,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC, (void *)(uintptr_t)i,
                                          query_call, NULL, NULL, NULL);
    return code;
}
