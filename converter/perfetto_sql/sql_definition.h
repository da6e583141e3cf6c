// SPDX-License-Identifier: Apache-2.0
//
// A parser of the statements that PerfettoSQL adds to SQL.
#pragma once

#include "common/str.h"
#include "common/vec.h"

// The types of PerfettoSQL, by the kinds of values.
enum sql_type {
    SQL_TYPE_UNKNOWN, // no type has the name
    SQL_TYPE_LONG,    // has many names: INT, BOOL, TIMESTAMP, ID, ...
    SQL_TYPE_DOUBLE,
    SQL_TYPE_STRING,
    SQL_TYPE_BYTES,
    SQL_TYPE_ANY,
};

enum definition_kind {
    DEFINITION_NONE,   // plain SQL
    DEFINITION_CREATE, // a table, view or virtual table of plain SQL, without a schema's name
    DEFINITION_TABLE,
    DEFINITION_VIEW,
    DEFINITION_FUNCTION,
    DEFINITION_MACRO,
    DEFINITION_INDEX,
    DEFINITION_DROP, // a table, view, macro or index
    DEFINITION_INCLUDE,
};

// A part of the statement's text.
struct sql_part {
    const char *text; // not terminated
    size_t size;
};

// A column, or an argument of a function or macro. SQL comments before the column are its
// documentation.
struct sql_field {
    struct sql_part name, type; // the type without a table in parentheses
    struct sql_part table;      // between the parentheses: "thread.id"
    struct sql_part comments;
    bool is_variadic; // "..." follows the type: any number of values
};
VEC_DEFINE(sql_field_vec, struct sql_field);

// All zero is empty. All parts belong to the text that was read.
struct sql_definition {
    enum definition_kind kind;
    bool replaces;                  // OR REPLACE; of a DROP: IF EXISTS
    struct sql_part what;           // DROP, and plain CREATE: TABLE, VIEW, ...
    struct sql_part name;           // of a module: with dots and wildcards
    struct sql_part on;             // the table of an index
    struct sql_part returns;        // the type; for functions that return a table: TABLE
    struct sql_part body;           // after AS; plain CREATE: after the name
    struct sql_part delegate;       // after DELEGATES TO
    struct sql_field_vec arguments; // of functions and macros; of an index: its columns
    struct sql_field_vec columns;   // of tables, views, and functions that return a table
    bool only_if_missing;           // plain CREATE: IF NOT EXISTS
};

// Reads the statement between `at` and `end`, which has no semicolon. For text that does not begin
// as a statement of PerfettoSQL, ret->kind is DEFINITION_NONE. Returns 0, -ENOMEM, or -EINVAL with
// the expected text in `why` and its place in *ret_at.
int definition_read(const char *at, const char *end, struct sql_definition *ret, struct strbuf *why,
                    const char **ret_at);
void definition_done(struct sql_definition *definition); // fit for CLEANUP()

// Returns the type of a name, without regard to case.
enum sql_type sql_type_read(struct sql_part name);
// Returns "LONG", "STRING", ...
const char *sql_type_name(enum sql_type type);

// Returns whether the last argument takes any number of values.
bool definition_is_variadic(const struct sql_definition *definition);

static inline bool sql_part_is_empty(struct sql_part part)
{
    return part.size == 0;
}
