// SPDX-License-Identifier: Apache-2.0
//
// experimental_annotated_callstack: a call site, its callers, and the way in which Android's
// runtime ran each frame. Frames of the runtime itself are marked, too, after the first frame of
// Java, so that a tool can hide them. A frame that a JNI trampoline calls is not marked, because
// Java called the frame.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

// The query below has the names in this order.
enum annotation {
    ANNOTATION_NONE,
    ANNOTATION_INTERPRETED,
    ANNOTATION_COMPILED_NOW,
    ANNOTATION_COMPILED_BEFORE,
    ANNOTATION_COMMON,
    ANNOTATION_COMMON_INTERPRETER,
};

enum mapping { MAPPING_OTHER, MAPPING_INTERPRETED, MAPPING_JIT, MAPPING_AOT, MAPPING_RUNTIME };
enum walk { WALK_NATIVE, WALK_JAVA, WALK_BEHIND_TRAMPOLINE };

struct site {
    int64_t id, depth, parent_id, frame_id;
    bool has_parent, is_trampoline, is_interpreter;
    enum mapping mapping;
    enum annotation annotation;
};
VEC_DEFINE(site_vec, struct site);

static bool begins_with_any(const char *text, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (str_starts_with(text, *prefixes))
            return true;
    return false;
}

static enum mapping mapping_of(const char *name)
{
    static const char *const jit[] = {"/memfd:jit-cache", "/memfd:jit-zygote-cache", NULL};
    static const char *const runtime[] = {"/libart.so", "/libartd.so", NULL};
    static const char *const native[] = {".so", NULL};
    static const char *const code[] = {".dex", ".vdex", ".jar", ".apk", NULL};
    static const char *const compiled[] = {".oat", ".odex", NULL};
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    if (begins_with_any(name, jit))
        return MAPPING_JIT;
    if (slash && begins_with_any(slash, runtime))
        return MAPPING_RUNTIME;
    if (!dot || begins_with_any(dot, native))
        return MAPPING_OTHER;
    if (begins_with_any(dot, code))
        return MAPPING_INTERPRETED;
    return begins_with_any(dot, compiled) ? MAPPING_AOT : MAPPING_OTHER;
}

static bool is_interpreter(const char *frame)
{
    static const char *const prefixes[] = {
        "nterp_", "Nterp", "ExecuteNterp", "ExecuteSwitchImpl", "_ZN3art11interpreter", NULL};
    return begins_with_any(frame, prefixes);
}

// Reads the call site and its callers. Returns SQLite's code.
static int sites_read(sqlite3 *handle, int64_t id, struct site_vec *ret)
{
    static const char sql[] =
        "WITH RECURSIVE up AS (SELECT id, depth, parent_id, frame_id FROM stack_profile_callsite "
        "WHERE id = ?1 UNION ALL SELECT c.id, c.depth, c.parent_id, c.frame_id FROM up JOIN "
        "stack_profile_callsite c ON c.id = up.parent_id AND c.id < up.id) "
        "SELECT up.id, up.depth, up.parent_id, up.frame_id, f.name, m.name FROM up "
        "LEFT JOIN stack_profile_frame f ON f.id = up.frame_id "
        "LEFT JOIN stack_profile_mapping m ON m.id = f.mapping ORDER BY up.id DESC";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        sqlite3_bind_int64(statement, 1, id);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *frame = (const char *)sqlite3_column_text(statement, 4);
        const char *mapping = (const char *)sqlite3_column_text(statement, 5);
        struct site site = {
            .id = sqlite3_column_int64(statement, 0),
            .depth = sqlite3_column_int64(statement, 1),
            .parent_id = sqlite3_column_int64(statement, 2),
            .frame_id = sqlite3_column_int64(statement, 3),
            .has_parent = sqlite3_column_type(statement, 2) != SQLITE_NULL,
            .is_trampoline = frame && strcmp(frame, "art_jni_trampoline") == 0,
            .is_interpreter = frame && is_interpreter(frame),
            .mapping = mapping ? mapping_of(mapping) : MAPPING_OTHER,
        };
        code = site_vec_push(ret, site) < 0 ? SQLITE_NOMEM : SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

// Returns the annotation of the next frame on the way from the root, and updates `walk`.
static enum annotation site_annotate(const struct site *site, enum walk *walk)
{
    if (*walk == WALK_BEHIND_TRAMPOLINE) {
        *walk = WALK_JAVA;
        return ANNOTATION_NONE;
    }
    if (site->is_trampoline) {
        *walk = WALK_BEHIND_TRAMPOLINE;
        return ANNOTATION_COMMON;
    }
    if (site->mapping == MAPPING_RUNTIME) {
        if (*walk == WALK_NATIVE)
            return ANNOTATION_NONE;
        return site->is_interpreter ? ANNOTATION_COMMON_INTERPRETER : ANNOTATION_COMMON;
    }
    if (site->mapping == MAPPING_OTHER)
        return ANNOTATION_NONE;
    *walk = WALK_JAVA;
    return site->mapping == MAPPING_INTERPRETED ? ANNOTATION_INTERPRETED
           : site->mapping == MAPPING_JIT       ? ANNOTATION_COMPILED_NOW
                                                : ANNOTATION_COMPILED_BEFORE;
}

static struct value_table *sites_table(const struct site_vec *sites)
{
    static const char *const names[] = {"id", "depth", "parent_id", "frame_id", "annotation"};
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    vec_foreach(sites, site) {
        if (!table)
            break;
        value_table_add_int(table, 0, site->id);
        value_table_add_int(table, 1, site->depth);
        if (site->has_parent)
            value_table_add_int(table, 2, site->parent_id);
        else
            value_table_add_null(table, 2);
        value_table_add_int(table, 3, site->frame_id);
        value_table_add_int(table, 4, site->annotation);
        table->n_rows++;
    }
    return table;
}

// SQL arguments: (call site)
static void annotated_stack(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct site_vec sites = {0};
    sqlite3 *handle = sqlite3_context_db_handle(context);
    enum walk walk = WALK_NATIVE;
    int type = sqlite3_value_type(argv[0]), code = SQLITE_OK;
    if (type != SQLITE_NULL && type != SQLITE_INTEGER) {
        sqlite3_result_error(context,
                             "experimental_annotated_callstack: the id of a call site is a whole "
                             "number",
                             -1);
        return;
    }
    if (type == SQLITE_INTEGER)
        code = sites_read(handle, sqlite3_value_int64(argv[0]), &sites);
    for (size_t i = sites.n; i-- > 0;)
        sites.items[i].annotation = site_annotate(&sites.items[i], &walk);
    if (code == SQLITE_OK)
        value_table_result(context, sites_table(&sites));
    else if (code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
    site_vec_done(&sites);
}

int annotated_stack_register(sqlite3 *handle)
{
    static const char sql[] =
        "SELECT c0 AS id, c1 AS depth, c2 AS parent_id, c3 AS frame_id, CASE c4 WHEN 1 THEN "
        "'interp' WHEN 2 THEN 'jit' WHEN 3 THEN 'aot' WHEN 4 THEN 'common-frame' WHEN 5 THEN "
        "'common-frame-interp' END AS annotation FROM "
        "__intrinsic_table_ptr(__mmsql_annotated_stack(?1)) WHERE "
        "__intrinsic_table_ptr_bind(c0, 'id') AND __intrinsic_table_ptr_bind(c1, 'depth') AND "
        "__intrinsic_table_ptr_bind(c2, 'parent_id') AND "
        "__intrinsic_table_ptr_bind(c3, 'frame_id') AND "
        "__intrinsic_table_ptr_bind(c4, 'annotation')";
    int code = sqlite3_create_function_v2(handle, "__mmsql_annotated_stack", 1, SQLITE_UTF8, NULL,
                                          annotated_stack, NULL, NULL, NULL);
    return code == SQLITE_OK
               ? table_function_add(handle, "experimental_annotated_callstack", sql, 1)
               : code;
}
