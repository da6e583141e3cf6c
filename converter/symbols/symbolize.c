// SPDX-License-Identifier: Apache-2.0
//
// A file is opened once for all frames of its mapping. Names are stored demangled. A frame keeps
// the name from the trace. A frame without a name gets the function's name.
//
// libdw may open files that an ELF file names. Therefore libdw runs in a thread that cannot open
// files without O_NONBLOCK, a flag that libdw never sets. Only elf_file.c thus opens files. SQLite
// opens no files meanwhile, because its temporary tables are in memory.
//
// Names and build ids come from the trace and become parts of paths, so they must not lead out of
// the folders: names with ".." are ignored, and a build id must be hexadecimal digits.
#include "converter/symbols/symbolize.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mangled.h"
#include "common/sandbox.h"
#include "common/str.h"
#include "converter/symbols/elf_file.h"
#include "converter/tables/rows.h"

#define SYSTEM_FOLDER "/usr/lib/debug"
#define BUILD_ID_MIN  4
#define BUILD_ID_MAX  128

struct symbolizer {
    sqlite3 *handle; // borrowed
    const char *const *folders;
    size_t n_folders;
    char *debug_path; // owned
    struct rows symbols;
    sqlite3_stmt *frames, *name; // owned
    int64_t next_set;
};

DEFINE_CLEANUP(elf_file_freep, struct elf_file, elf_file_free);

bool symbolize_is_built_in(void)
{
#ifdef HAVE_LIBDW
    return true;
#else
    return false;
#endif
}

__attribute__((format(printf, 3, 4))) static struct elf_file *
file_try(const struct symbolizer *symbolizer, const char *build_id, const char *format, ...)
{
    char path[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    return n > 0 && (size_t)n < sizeof(path) ? elf_file_open(path, build_id, symbolizer->debug_path)
                                             : NULL;
}

static struct elf_file *file_by_build_id(const struct symbolizer *symbolizer, const char *folder,
                                         const char *id)
{
    const char *rest = id + 2;
    struct elf_file *file =
        file_try(symbolizer, id, "%s/.build-id/%.2s/%s.debug", folder, id, rest);
    if (!file)
        file = file_try(symbolizer, id, "%s/.build-id/%.2s/%s", folder, id, rest);
    if (!file)
        file = file_try(symbolizer, id, "%s/%.2s/%s.debug", folder, id, rest);
    return file;
}

static bool build_id_is_sane(const char *id)
{
    size_t n = strlen(id);
    return n >= BUILD_ID_MIN && n <= BUILD_ID_MAX && strspn(id, "0123456789abcdefABCDEF") == n;
}

static struct elf_file *file_find(const struct symbolizer *symbolizer, const char *build_id,
                                  const char *name)
{
    struct elf_file *file = NULL;
    bool has_id = build_id_is_sane(build_id);
    bool has_name = *name == '/' && !strstr(name, "/..");
    const char *last = has_name ? strrchr(name, '/') + 1 : "";
    if (!has_id && *build_id)
        return NULL;
    for (size_t i = 0; i < symbolizer->n_folders && !file; i++) {
        const char *folder = symbolizer->folders[i];
        if (has_id)
            file = file_by_build_id(symbolizer, folder, build_id);
        if (!file && has_name)
            file = file_try(symbolizer, build_id, "%s%s", folder, name);
        if (!file && has_name && *last)
            file = file_try(symbolizer, build_id, "%s/%s", folder, last);
    }
    if (!file && has_id)
        file = file_by_build_id(symbolizer, SYSTEM_FOLDER, build_id);
    if (!file && has_id && has_name)
        file = file_try(symbolizer, build_id, "%s", name);
    return file;
}

static void symbol_write(struct symbolizer *symbolizer, const struct elf_symbol *symbol,
                         const char *function, bool inlined)
{
    struct rows *rows = &symbolizer->symbols;
    rows_int(rows, COL_stack_profile_symbol_symbol_set_id, symbolizer->next_set);
    rows_text(rows, COL_stack_profile_symbol_name, function, strlen(function));
    if (symbol->source_file)
        rows_text(rows, COL_stack_profile_symbol_source_file, symbol->source_file,
                  strlen(symbol->source_file));
    if (symbol->line > 0)
        rows_int(rows, COL_stack_profile_symbol_line_number, symbol->line);
    rows_int(rows, COL_stack_profile_symbol_inlined, inlined);
    rows_put(rows);
}

static void frame_symbolize(struct symbolizer *symbolizer, struct elf_file *file, int64_t frame,
                            uint64_t address)
{
    struct elf_symbol found[ELF_SYMBOLS_MAX];
    size_t n = elf_file_lookup(file, address, found);
    for (size_t i = 0; i < n; i++) {
        CLEANUP(freep) char *readable = mangled_read(found[i].function);
        const char *function = readable ? readable : found[i].function;
        symbol_write(symbolizer, &found[i], function, i + 1 < n);
        if (i + 1 < n)
            continue;
        sqlite3_bind_int64(symbolizer->name, 1, symbolizer->next_set++);
        sqlite3_bind_text(symbolizer->name, 2, function, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(symbolizer->name, 3, frame);
        sqlite3_step(symbolizer->name);
        sqlite3_reset(symbolizer->name);
    }
}

static int mapping_symbolize(struct symbolizer *symbolizer, int64_t mapping, const char *build_id,
                             const char *name)
{
    CLEANUP(elf_file_freep) struct elf_file *file = file_find(symbolizer, build_id, name);
    if (!file)
        return SQLITE_OK;
    sqlite3_bind_int64(symbolizer->frames, 1, mapping);
    while (sqlite3_step(symbolizer->frames) == SQLITE_ROW)
        frame_symbolize(symbolizer, file, sqlite3_column_int64(symbolizer->frames, 0),
                        (uint64_t)sqlite3_column_int64(symbolizer->frames, 1));
    return sqlite3_reset(symbolizer->frames); // the code of the step that ended the loop
}

static int symbolizer_open(struct symbolizer *symbolizer, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path = {0};
    strbuf_add_str(&path, SYSTEM_FOLDER);
    for (size_t i = 0; i < symbolizer->n_folders; i++)
        strbuf_addf(&path, ":%s", symbolizer->folders[i]);
    symbolizer->debug_path = strbuf_steal(&path);
    if (!symbolizer->debug_path)
        return err_errno(err, -ENOMEM, "symbols");
    // Frames are collected first, because the loop below changes the frames.
    int r = sql_run(symbolizer->handle,
                    "CREATE TEMP TABLE bare_frame AS SELECT f.id, f.mapping, f.rel_pc "
                    "FROM stack_profile_frame f WHERE f.symbol_set_id IS NULL",
                    "symbols", err);
    int code = SQLITE_OK;
    if (r == 0)
        code = sqlite3_prepare_v2(symbolizer->handle,
                                  "SELECT id, rel_pc FROM temp.bare_frame WHERE mapping = ?1", -1,
                                  &symbolizer->frames, NULL);
    if (r == 0 && code == SQLITE_OK)
        code = sqlite3_prepare_v2(symbolizer->handle,
                                  "UPDATE stack_profile_frame SET symbol_set_id = ?1, "
                                  "name = iif(coalesce(name, '') = '', ?2, name) WHERE id = ?3",
                                  -1, &symbolizer->name, NULL);
    if (code != SQLITE_OK)
        r = err_set(err, -EIO, "symbols: %s", sqlite3_errmsg(symbolizer->handle));
    if (r == 0)
        r = rows_open(&symbolizer->symbols, symbolizer->handle, TABLE_stack_profile_symbol, err);
    int failure = 0;
    symbolizer->next_set = sql_number_or_failure(
        symbolizer->handle, "SELECT max(symbol_set_id) + 1 FROM stack_profile_symbol", 0, &failure);
    return r == 0 && failure < 0 ? err_errno(err, failure, "symbols") : r;
}

static void symbolizer_close(struct symbolizer *symbolizer)
{
    sqlite3_finalize(symbolizer->frames);
    sqlite3_finalize(symbolizer->name);
    rows_close(&symbolizer->symbols);
    free(symbolizer->debug_path);
}

static int frames_symbolize(struct sqlite3 *handle, const char *const *folders, size_t n_folders,
                            bool (*goes_on)(void *userdata), void *userdata, struct err *err)
{
    CLEANUP(symbolizer_close)
    struct symbolizer symbolizer = {.handle = handle, .folders = folders, .n_folders = n_folders};
    sqlite3_stmt *mappings = NULL;
    int r = symbolizer_open(&symbolizer, err);
    if (r == 0 && sqlite3_prepare_v2(handle,
                                     "SELECT id, build_id, name FROM stack_profile_mapping WHERE "
                                     "id IN (SELECT mapping FROM temp.bare_frame)",
                                     -1, &mappings, NULL) != SQLITE_OK)
        r = err_set(err, -EIO, "symbols: %s", sqlite3_errmsg(handle));
    while (r == 0 && sqlite3_step(mappings) == SQLITE_ROW) {
        if (mapping_symbolize(&symbolizer, sqlite3_column_int64(mappings, 0),
                              column_text(mappings, 1), column_text(mappings, 2)) != SQLITE_OK) {
            r = err_set(err, -EIO, "symbols: %s", sqlite3_errmsg(handle));
            break;
        }
        r = goes_on && !goes_on(userdata) ? -ECANCELED : rows_error(&symbolizer.symbols, err);
    }
    if (sqlite3_finalize(mappings) != SQLITE_OK && r == 0)
        r = err_set(err, -EIO, "symbols: %s", sqlite3_errmsg(handle));
    return r;
}

struct work {
    struct sqlite3 *handle;
    const char *const *folders;
    size_t n_folders;
    bool (*goes_on)(void *userdata);
    void *userdata;
    struct err *err;
    int r;
    bool ended; // false: the thread was ended for lack of memory
};

static void *work_run(void *userdata)
{
    struct work *work = userdata;
    int r = sandbox_is_wanted() ? sandbox_opens() : 0;
    if (r < 0 && !sandbox_is_unavailable(r)) {
        work->r = err_errno(work->err, r, "symbols: the sandbox cannot be entered");
        work->ended = true;
        return NULL;
    }
    work->r = frames_symbolize(work->handle, work->folders, work->n_folders, work->goes_on,
                               work->userdata, work->err);
    work->ended = true;
    return NULL;
}

int symbolize(struct sqlite3 *handle, const char *const *folders, size_t n_folders,
              bool (*goes_on)(void *userdata), void *userdata, struct err *err)
{
    struct work work = {handle, folders, n_folders, goes_on, userdata, err, 0, false};
    pthread_t thread;
    int r = sql_run(handle, "PRAGMA temp_store=MEMORY; BEGIN", "symbols", err);
    if (r < 0)
        return r;
    r = -pthread_create(&thread, NULL, work_run, &work);
    if (r < 0)
        return err_errno(err, r, "symbols: no thread can be started");
    pthread_join(thread, NULL);
    if (!work.ended)
        return err_errno(err, -ENOMEM, "symbols");
    return work.r < 0 ? work.r : sql_run(handle, "COMMIT; PRAGMA temp_store=FILE", "symbols", err);
}
