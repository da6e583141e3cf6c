// SPDX-License-Identifier: Apache-2.0
//
// CAT_STACKS, STACK_FROM_STACK_PROFILE_CALLSITE and STACK_FROM_STACK_PROFILE_FRAME make the stacks
// that EXPERIMENTAL_PROFILE (profile_value.c) takes.
#include "converter/functions/stack_values.h"

#include <stdint.h>

#include "common/elements.h"
#include "common/wire.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define HEAD_MAX (WIRE_VARINT_MAX + 1) // a tag and a number

static void bytes_result(sqlite3_context *context, sqlite3_str *bytes)
{
    if (sqlite3_str_errcode(bytes) == SQLITE_OK && sqlite3_str_length(bytes) == 0)
        sqlite3_result_zeroblob(context, 0);
    else if (sqlite3_str_errcode(bytes) == SQLITE_OK)
        sqlite3_result_blob64(context, sqlite3_str_value(bytes),
                              (sqlite3_uint64)sqlite3_str_length(bytes), SQLITE_TRANSIENT);
    else
        sqlite3_result_error_code(context, sqlite3_str_errcode(bytes));
    sqlite3_free(sqlite3_str_finish(bytes));
}

static void name_add(sqlite3_str *stack, const char *name, size_t size)
{
    uint8_t head[2 * HEAD_MAX];
    struct wire_writer w = wire_writer_over(head, sizeof(head));
    wire_tag(&w, STACK_ENTRY, WIRE_BYTES);
    wire_varint(&w, 1 + wire_varint_size(size) + size);
    wire_tag(&w, STACK_NAME, WIRE_BYTES);
    wire_varint(&w, size);
    sqlite3_str_append(stack, (const char *)head, (int)wire_size(&w));
    sqlite3_str_append(stack, name, (int)size);
}

// SQL arguments: (outermost, ..., innermost), which are stacks or names. NULLs are skipped.
static void cat_stacks(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3_str *stack = sqlite3_str_new(sqlite3_context_db_handle(context));
    for (int i = argc - 1; i >= 0; i--) {
        int type = sqlite3_value_type(argv[i]);
        const char *bytes = type == SQLITE_BLOB   ? sqlite3_value_blob(argv[i])
                            : type == SQLITE_TEXT ? (const char *)sqlite3_value_text(argv[i])
                                                  : NULL;
        int size = bytes ? sqlite3_value_bytes(argv[i]) : 0;
        if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
            sqlite3_free(sqlite3_str_finish(stack));
            sqlite3_result_error(context, "cat_stacks: stacks and names are expected, not numbers",
                                 -1);
            return;
        }
        if (bytes && type == SQLITE_BLOB)
            sqlite3_str_append(stack, bytes, size);
        else if (bytes)
            name_add(stack, bytes, (size_t)size);
    }
    bytes_result(context, stack);
}

static void number_result(sqlite3_context *context, uint32_t field, int64_t id)
{
    uint8_t bytes[3 * HEAD_MAX];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    size_t mark = wire_begin(&w, STACK_ENTRY);
    wire_tag(&w, field, WIRE_VARINT); // 0 is a number like others
    wire_varint(&w, (uint64_t)id);
    wire_end(&w, mark);
    sqlite3_result_blob(context, bytes, (int)wire_size(&w), SQLITE_TRANSIENT);
}

static void statement_free(void *statement)
{
    sqlite3_finalize(statement);
}

// Returns whether the statement `sql` has a row for the id. If not, or after an error, sets the
// error of the SQL function. The statement is prepared once for all calls within the calling
// statement.
static bool id_exists(sqlite3_context *context, int key, const char *sql, int64_t id)
{
    sqlite3 *handle = sqlite3_context_db_handle(context);
    sqlite3_stmt *statement = sqlite3_get_auxdata(context, key);
    if (!statement && sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_set_auxdata(context, key, statement, statement_free);
        statement = sqlite3_get_auxdata(context, key);
    }
    int code = SQLITE_ERROR;
    if (statement) {
        sqlite3_bind_int64(statement, 1, id);
        code = sqlite3_step(statement);
        sqlite3_reset(statement);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
    else if (code == SQLITE_DONE)
        sqlite3_result_error(context, "stack: no row of the table has this id", -1);
    return code == SQLITE_ROW;
}

static bool is_integer(sqlite3_context *context, sqlite3_value *value)
{
    if (sqlite3_value_type(value) == SQLITE_INTEGER)
        return true;
    if (sqlite3_value_type(value) != SQLITE_NULL)
        sqlite3_result_error(context, "stack: the arguments must be integers", -1);
    return false;
}

// SQL arguments: (callsite[, annotate])
static void stack_from_callsite(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    if (argc < 1 || argc > 2) {
        sqlite3_result_error(context, "stack: the id of a callsite is expected", -1);
        return;
    }
    if (!is_integer(context, argv[0]) || (argc == 2 && !is_integer(context, argv[1])))
        return;
    int64_t id = sqlite3_value_int64(argv[0]);
    if (id_exists(context, SHARED_CALLSITE, "SELECT 1 FROM stack_profile_callsite WHERE id = ?1",
                  id))
        number_result(context,
                      argc == 2 && sqlite3_value_int64(argv[1]) ? STACK_ANNOTATED_CALLSITE
                                                                : STACK_CALLSITE,
                      id);
}

// SQL arguments: (frame)
static void stack_from_frame(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (!is_integer(context, argv[0]))
        return;
    int64_t id = sqlite3_value_int64(argv[0]);
    if (id_exists(context, SHARED_FRAME, "SELECT 1 FROM stack_profile_frame WHERE id = ?1", id))
        number_result(context, STACK_FRAME, id);
}

int stack_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"cat_stacks", -1, cat_stacks, 0},
        {"stack_from_stack_profile_callsite", -1, stack_from_callsite, READS_DATABASE},
        {"stack_from_stack_profile_frame", 1, stack_from_frame, READS_DATABASE},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
