// SPDX-License-Identifier: Apache-2.0
//
// The frames of a stack are consecutive rows, so a stack is one look-up and a walk.
#include "converter/profile/alloc_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/cleanup.h"
#include "converter/profile/java_names.h"
#include "converter/tables/statement.h"

#define MAX_FRAMES     4096 // of a stack; further outermost frames are left out
#define NAME_MAX_BYTES 8192

static const char stacks_sql[] =
    "SELECT s.first_frame, s.n_frames, r.thread_name, r.type, "
    "iif(?1, s.n_samples * r.size_bytes, s.n_samples) "
    "FROM alloc_log_stack s JOIN alloc_log_record r ON r.id = s.record_id "
    "WHERE s.n_samples > 0 ORDER BY s.id";

static const char frames_sql[] =
    "SELECT f.name FROM _alloc_log_stack_frame sf JOIN alloc_log_frame f ON f.id = sf.frame_id "
    "WHERE sf.id >= ?1 AND sf.id < ?1 + ?2 ORDER BY sf.id";

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text && *text ? text : "[unnamed]";
}

// Reads the names of the innermost methods into `arena`, outermost first. Returns the number of
// names; -1 if memory is out.
static int64_t methods_read(sqlite3_stmt *frames, int64_t first, int64_t n, uint32_t limit,
                            struct arena *arena, const char **names)
{
    int64_t most = limit < MAX_FRAMES ? limit : MAX_FRAMES, k = 0;
    int64_t skipped = n > most ? n - most : 0;
    sqlite3_bind_int64(frames, 1, first + skipped);
    sqlite3_bind_int64(frames, 2, n - skipped);
    while (k < most && sqlite3_step(frames) == SQLITE_ROW) {
        char name[NAME_MAX_BYTES];
        java_method_name(text_of(frames, 0), name, sizeof(name));
        names[k] = arena_strndup(arena, name, strlen(name));
        if (!names[k++]) {
            k = -1;
            break;
        }
    }
    return sqlite3_reset(frames) == SQLITE_OK ? k : -1;
}

static void names_reverse(const char **names, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        const char *name = names[i];
        names[i] = names[n - 1 - i];
        names[n - 1 - i] = name;
    }
}

static int stack_add(const struct alloc_stacks *options, sqlite3_stmt *stack, sqlite3_stmt *frames,
                     struct flame *flame)
{
    const char *names[MAX_FRAMES + 2];
    char type[NAME_MAX_BYTES];
    struct arena arena = {0};
    size_t n = 0;
    int64_t n_methods = 0;
    if (!options->type_only)
        names[n++] = text_of(stack, 2);
    if (!options->type_only && !options->thread_only)
        n_methods =
            methods_read(frames, sqlite3_column_int64(stack, 0), sqlite3_column_int64(stack, 1),
                         options->depth_limit, &arena, names + n);
    n += n_methods > 0 ? (size_t)n_methods : 0;
    java_type_name(text_of(stack, 3), type, sizeof(type));
    if (!options->ignore_type && !options->thread_only)
        names[n++] = type;
    if (options->reverse)
        names_reverse(names, n);
    int r = n_methods < 0 ? -1 : flame_add(flame, names, n, 0, sqlite3_column_int64(stack, 4));
    arena_done(&arena);
    return r;
}

int alloc_stacks_read(sqlite3 *handle, const struct alloc_stacks *options, struct flame *flame)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *stack = NULL;
    CLEANUP(statement_finalizep) sqlite3_stmt *frames = NULL;
    int code = sqlite3_prepare_v2(handle, stacks_sql, -1, &stack, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle, frames_sql, -1, &frames, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int(stack, 1, options->use_size);
    while ((code = sqlite3_step(stack)) == SQLITE_ROW)
        if (stack_add(options, stack, frames, flame) < 0)
            return SQLITE_NOMEM;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
