// SPDX-License-Identifier: Apache-2.0
//
// The rows of a dump are the changes since the previous dump, so the state at a time is the sum of
// all rows up to that time. SQL makes all names in advance, because a frame is part of many stacks.
#include "converter/profile/call_stacks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/arena.h"
#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/functions/functions.h"
#include "converter/profile/java_names.h"
#include "converter/profile/sample_leaves.h"
#include "converter/tables/statement.h"

#define NAME_MAX_BYTES 4096 // of a Java method

static const char frames_sql[] =
    "CREATE TEMP TABLE flame_frame(id INTEGER, inline_depth INTEGER, function, "
    "PRIMARY KEY(id, inline_depth)) WITHOUT ROWID;"
    "INSERT INTO flame_frame SELECT frame_id, inline_depth, coalesce(demangle(function), function, "
    "'[' || trim("
    // The part of the path after the last slash is the file's name.
    "coalesce(nullif(replace(mapping_name, rtrim(mapping_name, replace(mapping_name, '/', '')), "
    "''), ''), nullif(mapping_name, ''), 'unknown'), '[]') || ']') FROM main.stack_frame;"
    // If several functions had their code at one address, the last function counts.
    "CREATE TEMP TABLE flame_code(upid INTEGER, frame_id INTEGER, function, PRIMARY KEY(upid, "
    "frame_id));"
    "INSERT OR REPLACE INTO flame_code SELECT p.upid, p.frame_id, s.name "
    "FROM main.perf_map_frame p JOIN main.perf_map_symbol s ON s.id = p.symbol_id "
    "JOIN main.stack_frame f USING (frame_id) WHERE f.function IS NULL ORDER BY p.last_ts;";

// Columns of the leaves: callsite, label of the process, weight up to `before`, weight, number of
// processes, process. Parameters: 1 before, 2 at, 3 counts, 4 total, 5 pid, 6 process, 7 heap, 8
// upid, 9 machine, 10 source, 11 session.
#define LABEL "coalesce(p.name, 'process') || iif(?12, '', ' (' || coalesce(p.pid, '?') || ')')"
#define PROCESS_FITS                                                                               \
    "(?5 < 0 OR p.pid = ?5) AND (?6 IS NULL OR p.name GLOB ?6) AND (?8 < 0 OR p.upid = ?8) AND "   \
    "(?9 < 0 OR p.machine_id = ?9)"

static const char heap_sql[] =
    "SELECT h.callsite_id, " LABEL ", sum(iif(h.ts <= ?1, iif(?3, h.count, h.size), 0)), "
    "sum(iif(?3, h.count, h.size)), (SELECT count(DISTINCT upid) FROM heap_profile_allocation "
    "JOIN process p USING (upid) WHERE " PROCESS_FITS "), h.upid "
    "FROM heap_profile_allocation h LEFT JOIN process p USING (upid) "
    "WHERE h.ts <= ?2 AND (NOT ?4 OR h.size > 0 OR h.count > 0) AND " PROCESS_FITS
    " AND (?7 IS NULL OR h.heap_name = ?7) "
    "GROUP BY h.upid, h.callsite_id ORDER BY h.upid, h.callsite_id";

static const char samples_sql[] =
    "SELECT s.callsite_id, " LABEL ", 0, count(*), 2, t.upid FROM _profiler_sample s "
    "LEFT JOIN thread t USING (utid) LEFT JOIN process p ON p.upid = t.upid "
    "WHERE s.callsite_id IS NOT NULL AND s.source = ?10 AND coalesce(s.session_id, -1) = ?11 "
    "AND (?9 < 0 OR t.machine_id = ?9) GROUP BY t.upid, s.callsite_id ORDER BY 6, 1";

// A row for each function of the frame, innermost first.
static const char up_sql[] =
    "SELECT c.parent_id, coalesce(j.function, n.function) FROM stack_profile_callsite c "
    "LEFT JOIN flame_frame n ON n.id = c.frame_id LEFT JOIN flame_code j "
    "ON j.upid = ?2 AND j.frame_id = c.frame_id WHERE c.id = ?1 ORDER BY n.inline_depth";

static const char *name_keep(struct arena *arena, const char *text)
{
    char name[NAME_MAX_BYTES];
    if (text[0] == 'L' && strstr(text, ";::")) {
        java_method_name(text, name, sizeof(name));
        text = name;
    }
    return arena_strndup(arena, text, strlen(text));
}

static char *last_arrow(char *text)
{
    char *last = NULL;
    for (char *at = text; (at = strstr(at, "->")); at += 2)
        last = at;
    return last;
}

// Adds the names of a frame, innermost first. The name of a runtime, Lpackage/Class;::method(I)V,
// is written as in Java. A name can be a chain of inlined methods with "->" between them, innermost
// last; each method becomes a separate frame. Returns the number of names; a name is NULL if memory
// is out.
static size_t names_keep(struct arena *arena, const char *text, const char **names, size_t room)
{
    char chain[NAME_MAX_BYTES], *arrow;
    size_t n = 0;
    if (text[0] == 'L' && strstr(text, ";::") && strlen(text) < sizeof(chain)) {
        strcpy(chain, text);
        for (text = chain; n < room && (arrow = last_arrow(chain)); n++) {
            names[n] = name_keep(arena, arrow + 2);
            *arrow = 0;
        }
    }
    if (n < room)
        names[n++] = name_keep(arena, text);
    return n;
}

// Reads the names from `callsite` outwards, innermost first, into `arena`. Returns 0 or -ENOMEM.
static int stack_read(sqlite3_stmt *up, sqlite3_int64 callsite, struct arena *arena,
                      const char **names, size_t *ret_n)
{
    size_t n = 0;
    for (bool more = true; more && n < CALL_STACK_MAX;) {
        more = false;
        sqlite3_bind_int64(up, 1, callsite);
        while (sqlite3_step(up) == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(up, 1);
            text = text && *text ? text : "[unknown]";
            n += names_keep(arena, text, names + n, CALL_STACK_MAX - n);
            more = sqlite3_column_type(up, 0) != SQLITE_NULL;
            callsite = sqlite3_column_int64(up, 0);
        }
        if (sqlite3_reset(up) != SQLITE_OK)
            return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        if (!names[i])
            return -ENOMEM;
    *ret_n = n;
    return 0;
}

// A stack with its weights. `owners` are the outermost frames, which are not functions: the process
// and the thread; NULL: left out.
struct leaf {
    int64_t callsite, upid, before, after;
    const char *owners[2];
};

static int leaf_add(const struct call_stacks *stacks, const struct leaf *leaf, sqlite3_stmt *up,
                    struct flame *flame)
{
    const char *inner[CALL_STACK_MAX], *frames[CALL_STACK_MAX + ELEMENTS(leaf->owners)];
    struct arena arena = {0};
    sqlite3_bind_int64(up, 2, leaf->upid);
    size_t n = 0, k = 0;
    int r = stack_read(up, leaf->callsite, &arena, inner, &n);
    for (size_t i = 0; i < ELEMENTS(leaf->owners); i++)
        if (leaf->owners[i])
            frames[k++] = leaf->owners[i];
    for (size_t i = 0; i < n && i < stacks->depth_limit; i++)
        frames[k++] = inner[stacks->reverse ? i : n - 1 - i];
    if (r == 0)
        r = stacks->is_before ? flame_add(flame, frames, k, leaf->after, 0)
                              : flame_add(flame, frames, k, leaf->before, leaf->after);
    arena_done(&arena);
    return r;
}

static int row_add(const struct call_stacks *stacks, sqlite3_stmt *row, sqlite3_stmt *up,
                   struct flame *flame)
{
    bool several = sqlite3_column_int64(row, 4) > 1;
    const struct leaf leaf = {
        .callsite = sqlite3_column_int64(row, 0),
        .upid = sqlite3_column_int64(row, 5),
        .before = sqlite3_column_int64(row, 2),
        .after = sqlite3_column_int64(row, 3),
        .owners = {several ? (const char *)sqlite3_column_text(row, 1) : NULL},
    };
    return leaf_add(stacks, &leaf, up, flame);
}

static int sample_row_add(const struct call_stacks *stacks, sqlite3_stmt *row, sqlite3_stmt *up,
                          struct flame *flame)
{
    char process[NAME_MAX_BYTES];
    const char *name = (const char *)sqlite3_column_text(row, LEAF_PROCESS);
    snprintf(process, sizeof(process), "%s (%lld)", name ? name : "process",
             (long long)sqlite3_column_int64(row, LEAF_PID));
    const struct leaf leaf = {
        .callsite = sqlite3_column_int64(row, LEAF_CALLSITE),
        .upid = sqlite3_column_int64(row, LEAF_UPID),
        .after = sqlite3_column_int64(row, LEAF_SAMPLES),
        .owners = {sqlite3_column_int64(row, LEAF_PROCESSES) > 1 ? process : NULL,
                   (const char *)sqlite3_column_text(row, LEAF_THREAD)},
    };
    return leaf_add(stacks, &leaf, up, flame);
}

static void parameters_bind(sqlite3_stmt *leaf, const struct call_stacks *stacks)
{
    sqlite3_bind_int64(leaf, 1, stacks->before);
    sqlite3_bind_int64(leaf, 2, stacks->at);
    sqlite3_bind_int(leaf, 3, stacks->kind == STACKS_HEAP_COUNT);
    sqlite3_bind_int(leaf, 4, stacks->total);
    sqlite3_bind_int64(leaf, 5, stacks->pid);
    sqlite3_bind_text(leaf, 6, stacks->process, -1, SQLITE_STATIC);
    sqlite3_bind_text(leaf, 7, stacks->heap, -1, SQLITE_STATIC);
    sqlite3_bind_int64(leaf, 8, stacks->upid);
    sqlite3_bind_int64(leaf, 9, stacks->machine_id);
    sqlite3_bind_text(leaf, 10, stacks->source, -1, SQLITE_STATIC);
    sqlite3_bind_int64(leaf, 11, stacks->session_id);
    sqlite3_bind_int(leaf, 12, stacks->without_pid);
}

static int leaves_prepare(sqlite3 *handle, const struct call_stacks *stacks, sqlite3_stmt **ret)
{
    if (stacks->kind == STACKS_OF_EVENT)
        return sample_leaves_prepare(handle,
                                     &(struct sample_choice){
                                         .of = stacks->of,
                                         .from = stacks->from,
                                         .to = stacks->at,
                                         .pid = stacks->pid,
                                         .process = stacks->process,
                                         .by_thread = stacks->by_thread,
                                     },
                                     ret);
    int code = sqlite3_prepare_v2(handle, stacks->kind == STACKS_SAMPLES ? samples_sql : heap_sql,
                                  -1, ret, NULL);
    if (code == SQLITE_OK)
        parameters_bind(*ret, stacks);
    return code;
}

int call_stacks_prepare(sqlite3 *handle)
{
    if (sql_number(handle, "SELECT count(*) FROM temp.sqlite_master WHERE name = 'flame_code'", 0))
        return SQLITE_OK;
    int code = functions_register(handle);
    return code == SQLITE_OK ? sqlite3_exec(handle, frames_sql, NULL, NULL, NULL) : code;
}

int call_stacks_read(sqlite3 *handle, const struct call_stacks *stacks, struct flame *flame)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *leaf = NULL;
    CLEANUP(statement_finalizep) sqlite3_stmt *up = NULL;
    bool of_event = stacks->kind == STACKS_OF_EVENT;
    int code = call_stacks_prepare(handle);
    if (code == SQLITE_OK)
        code = leaves_prepare(handle, stacks, &leaf);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle, up_sql, -1, &up, NULL);
    if (code != SQLITE_OK)
        return code;
    while ((code = sqlite3_step(leaf)) == SQLITE_ROW)
        if ((of_event ? sample_row_add : row_add)(stacks, leaf, up, flame) < 0)
            return SQLITE_NOMEM;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
