// SPDX-License-Identifier: Apache-2.0
//
// SQLite finds the stored tables of a view: when a query is prepared, here in a database without
// rows, SQLite calls the authorizer for each table.
#include "converter/tables/selection.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/sql/sql.h"
#include "converter/tables/arg_views.h"
#include "converter/tables/database.h"
#include "protos/ftrace_table.h"

#define NAMES_MAX 256 // to compare with a misspelt name

// Small tables about the trace as a whole.
static const enum table_id always_kept[] = {
    TABLE_cpu,   TABLE_machine, TABLE_metadata,     TABLE_mmsql_schema,
    TABLE_stats, TABLE_trace,   TABLE_trace_bounds, TABLE_trace_machine,
};

struct reading {
    bool read[N_TABLES];
};

static int on_read(void *userdata, int action, const char *table, const char *column,
                   const char *schema, const char *view)
{
    struct reading *reading = userdata;
    (void)column;
    (void)schema;
    (void)view;
    for (size_t i = 0; action == SQLITE_READ && i < N_TABLES; i++)
        if (str_eq(table_defs[i].stored_name, table))
            reading->read[i] = true;
    return SQLITE_OK;
}

static const char *name_near(const char *name)
{
    const char *names[NAMES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < N_TABLES && n < NAMES_MAX; i++)
        names[n++] = table_defs[i].name;
    for (const struct sql_view *view = sql_views; view->name && n < NAMES_MAX; view++)
        names[n++] = view->name;
    return str_nearest(name, names, n);
}

static int name_unknown(const char *name, struct err *err)
{
    const char *near = name_near(name);
    err_set(err, -EINVAL, "%s: no such table", name);
    return near ? err_hint(err, -EINVAL, "did you mean '%s'?", near)
                : err_hint(err, -EINVAL, "'mmsql tables' lists them");
}

// Returns true if the name may be an event's view. Some events are known only in the trace.
static bool event_may_be_meant(const char *name)
{
    if (!str_starts_with(name, ARG_VIEW_PREFIX))
        return false;
    return ftrace_event_type_by_name(name + strlen(ARG_VIEW_PREFIX)) || !name_near(name);
}

// Keeps the tables that `name` reads.
static int name_keep(struct selection *kept, sqlite3 *handle, const char *name, struct err *err)
{
    struct reading reading = {0};
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", name);
    bool is_event = str_eq(name, "ftrace_event") || str_eq(name, "raw");
    sqlite3_set_authorizer(handle, on_read, &reading);
    int code = sql ? sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_set_authorizer(handle, NULL, NULL);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    if (code == SQLITE_NOMEM)
        return err_errno(err, -ENOMEM, "%s", name);
    if (code != SQLITE_OK && !event_may_be_meant(name))
        return name_unknown(name, err);
    if (code != SQLITE_OK) {
        kept->no_events = kept->no_event_fields = false;
        return 0;
    }
    for (size_t i = 0; i < N_TABLES; i++)
        kept->dropped[i] &= !reading.read[i];
    if (is_event || (reading.read[TABLE__arg_set] && !reading.read[TABLE__arg_field]))
        kept->no_events = false;
    if (reading.read[TABLE__arg_field]) {
        kept->no_args = kept->no_event_fields = false;
        // Views of events and their fields.
        if (!str_eq(name, "args") && reading.read[TABLE__arg_kind])
            kept->no_events = false;
    }
    return 0;
}

int selection_keep(struct selection *selection, const char *names, struct err *err)
{
    struct selection kept = {.no_args = true, .no_events = true, .no_event_fields = true};
    CLEANUP(freep) char *list = strdup(names);
    struct database *db = NULL;
    char *rest = list, *name;
    for (size_t i = 0; i < N_TABLES; i++)
        kept.dropped[i] = true;
    for (size_t i = 0; i < ELEMENTS(always_kept); i++)
        kept.dropped[always_kept[i]] = false;
    int r = list ? database_create(NULL, err, &db) : err_errno(err, -ENOMEM, "tables");
    if (r == 0)
        r = database_finish(db, NULL, NULL, err);
    while (r == 0 && (name = strsep(&rest, ",")))
        r = name_keep(&kept, database_handle(db), name, err);
    // The flags decide the content of these tables.
    kept.dropped[TABLE__arg_set] = kept.dropped[TABLE__arg_kind] = false;
    kept.dropped[TABLE__arg_field] = kept.dropped[TABLE__arg_more] = false;
    database_free(db);
    if (r < 0)
        return r;
    for (size_t i = 0; i < N_TABLES; i++)
        selection->dropped[i] |= kept.dropped[i];
    selection->no_args |= kept.no_args;
    selection->no_events |= kept.no_events;
    selection->no_event_fields |= kept.no_event_fields;
    return 0;
}

void selection_drop_args(struct selection *selection)
{
    selection->no_args = selection->no_event_fields = true;
}

void selection_drop_ftrace(struct selection *selection)
{
    selection->no_events = true;
}

void selection_drop_sched(struct selection *selection)
{
    selection->dropped[TABLE_sched_slice] = selection->dropped[TABLE_thread_state] = true;
    selection->dropped[TABLE_spurious_sched_wakeup] = true;
}
