// SPDX-License-Identifier: Apache-2.0
//
// mmsql tables: prints the tables and columns of the schema, and the modules of the library.
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/modules.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/sql/sql.h"
#include "converter/tables/arg_views.h"
#include "converter/tables/database.h"
#include "protos/ftrace_table.h"

#define VIEWS_MAX 96 // to compare with a misspelt name

static const char help[] =
    "usage: mmsql tables [NAME]\n"
    "\n"
    "Lists the tables and views of a converted database, and the modules that INCLUDE\n"
    "PERFETTO MODULE adds. With NAME: the columns of a table or view; the objects of\n"
    "a module ('package.*': several modules); the documentation of one object.\n"
    "\n"
    "Each kind of kernel event that a trace has is a view of its own, ftrace_NAME:\n"
    "for example ftrace_sched_switch.\n"
    "\n"
    "  -h, --help  this text\n"
    "\n"
    "Example: mmsql tables reclaim_by_process\n";

DEFINE_CLEANUP(database_freep, struct database, database_free);

static void column_print(const char *name, const char *type, const char *doc)
{
    printf("  %-26s %-8s %s\n", name, type, doc);
}

static void table_print(const struct table_def *def)
{
    printf("%s: %s\n\n", def->name, def->doc);
    for (size_t i = 0; i < def->n_columns; i++)
        if (!def->columns[i].hidden)
            column_print(def->columns[i].name, column_type_name(def->columns[i].type),
                         def->columns[i].doc);
}

// Returns name, doc and type of a column that only the view has, or NULL.
static const char *const *view_column(const struct sql_view *view, const char *name)
{
    for (const char *const(*column)[3] = view->columns; (*column)[0]; column++)
        if (str_eq((*column)[0], name))
            return *column;
    return NULL;
}

static const char *view_column_doc(const struct sql_view *view, const char *name)
{
    const char *const *column = view_column(view, name);
    if (column)
        return column[1];
    const struct table_def *def = table_def_find(view->table);
    for (size_t i = 0; def && i < def->n_columns; i++)
        if (str_eq(def->columns[i].name, name))
            return def->columns[i].doc;
    return "";
}

static int view_column_print(void *userdata, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    const char *const *column = view_column(userdata, values[0]);
    column_print(values[0], column && column[2][0] ? column[2] : values[1],
                 view_column_doc(userdata, values[0]));
    return 0;
}

// Prints the columns of a view. SQLite knows their names, and the types of columns of tables.
static int view_print(const struct sql_view *view)
{
    struct err err = {0};
    CLEANUP(database_freep) struct database *db = NULL;
    char sql[128];
    snprintf(sql, sizeof(sql),
             "SELECT name, iif(type = '', 'ANY', type) FROM pragma_table_info('%s')", view->name);
    if (database_create(NULL, &err, &db) < 0 || database_finish(db, NULL, NULL, &err) < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    printf("%s: %s\n\n", view->name, view->doc);
    sqlite3_exec(database_handle(db), sql, view_column_print, (void *)(uintptr_t)view, NULL);
    return EXIT_DONE;
}

// Prints the columns of the view of a kernel event. Returns false if there is no event of this
// name.
static bool event_print(const char *name)
{
    static const char *const shared[][3] = {
        {"id", "INTEGER", "Row, in order of time."},  {"ts", "INTEGER", "Time (ns)."},
        {"cpu", "ANY", "Processor of the event."},    {"utid", "INTEGER", "Thread of the event."},
        {"arg_set_id", "INTEGER", "The same as id."},
    };
    static const char *const kinds[] = {"INTEGER", "INTEGER", "TEXT", "TEXT", "ANY"};
    size_t prefix = strlen(ARG_VIEW_PREFIX);
    const struct ftrace_event_type *type = NULL;
    for (size_t i = 0; i < n_ftrace_event_types && strncasecmp(name, ARG_VIEW_PREFIX, prefix) == 0;
         i++)
        if (strcasecmp(ftrace_event_types[i].name, name + prefix) == 0)
            type = &ftrace_event_types[i];
    if (!type)
        return false;
    printf(ARG_VIEW_PREFIX "%s: Kernel events called %s.\n\n", type->name, type->name);
    for (size_t i = 0; i < ELEMENTS(shared); i++)
        column_print(shared[i][0], shared[i][1], shared[i][2]);
    for (size_t i = 0; i < type->n_fields; i++) {
        char column[128];
        const char *field = type->fields[i].name;
        snprintf(column, sizeof(column), "%s%s", arg_view_shares(field) ? "field_" : "", field);
        column_print(column, kinds[type->fields[i].kind], "Field of the event.");
    }
    return true;
}

// Prints the modules and objects of the library called `lower`: `name` in lower case, as all names
// of the library. If nothing has this name, prints that there is no such table; `near`: a table of
// a similar name, or NULL.
static int library_print(const struct sql_packages *library, const char *name, const char *lower,
                         const char *near)
{
    if (module_print(library, lower))
        return EXIT_DONE;
    CLEANUP(freep) char *near_module = near ? NULL : module_nearest(library, lower);
    if (!near)
        near = near_module;
    say("%s: no such table, view or module (%s%s%s)", name, near ? "did you mean '" : "",
        near ? near : "'mmsql tables' lists them", near ? "'?" : "");
    return EXIT_FAILED;
}

static int columns_print(const struct sql_packages *library, const char *name)
{
    const char *names[N_TABLES + VIEWS_MAX];
    CLEANUP(freep) char *lower = str_lower(name); // as SQL, the names ignore case
    size_t n = 0;
    if (!lower) {
        say("out of memory");
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < N_TABLES; i++)
        names[n++] = table_defs[i].name;
    for (const struct sql_view *view = sql_views; view->name; view++) {
        if (str_eq(view->name, lower))
            return view_print(view);
        if (n < N_TABLES + VIEWS_MAX)
            names[n++] = view->name;
    }
    const struct table_def *def = table_def_find(lower);
    if (def) {
        table_print(def);
        return EXIT_DONE;
    }
    if (event_print(name))
        return EXIT_DONE;
    return library_print(library, name, lower, str_nearest(lower, names, n));
}

static void list_print(const struct sql_packages *library)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (table_defs[i].name[0] != '_') // internal
            printf("%-24s %s\n", table_defs[i].name, table_defs[i].doc);
    putchar('\n');
    for (const struct sql_view *view = sql_views; view->name; view++)
        printf("%-24s %s\n", view->name, view->doc);
    putchar('\n');
    modules_print(library);
}

static int run_tables(int argc, char **argv)
{
    static const struct verb_option none[] = {{0}};
    int code;
    if (!verb_options_read("tables", help, none, argc, argv, NULL, &code))
        return code;
    if (argc - optind > 1)
        return usage_error("tables", "at most one table at a time");
    CLEANUP(packages_done) struct sql_packages library = {0};
    if (packages_add_library(&library) < 0) {
        say("out of memory");
        return EXIT_FAILED;
    }
    if (optind < argc)
        return columns_print(&library, argv[optind]);
    list_print(&library);
    return EXIT_DONE;
}

const struct program_verb verb_tables = {
    .name = "tables",
    .arguments = "[NAME]",
    .summary = "explain the tables, their columns, and modules",
    .run = run_tables,
};
