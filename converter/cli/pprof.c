// SPDX-License-Identifier: Apache-2.0
//
// mmsql pprof: heap profiles in the format of pprof. The sample types are the types of Go's heap
// profiles, for which pprof has options. Processes and heaps are labels of the samples: pprof
// selects them with -tags and -tagfocus, and adds them up otherwise.
#include <errno.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/cli/cli.h"
#include "converter/cli/output_file.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/profile/pprof_writer.h"
#include "converter/profile/sample_leaves.h"
#include "converter/tables/statement.h"

#define MAX_FRAMES 4096 // of a stack; further frames are cut
#define MAX_LINES  256  // functions inlined into each other

static const char help[] =
    "usage: mmsql pprof [OPTION]... DB|TRACE -o FILE.pb.gz\n"
    "\n"
    "Writes heap profiles for pprof: alloc_objects, alloc_space, inuse_objects and\n"
    "inuse_space of each call stack, with labels pid, process and heap. With samples:\n"
    "their number for each call stack, with labels pid, process and thread.\n"
    "\n"
    "      --of WHAT        heap, or samples: cpu, faults, reclaim, or the event that\n"
    "                       was sampled, such as 'kmem:*' (default: heap)\n"
    "  -o, --output FILE    write there; '-', the default, is standard output, which\n"
    "                       must not be a terminal\n"
    "      --pid PIDS       write these processes, separated by commas\n"
    "      --process NAME   write the processes that match (* and ?)\n"
    "      --heap NAME      write this heap, such as libc.malloc\n"
    "      --at TS          write the state at TS (ns; default: the end of the trace)\n"
    "      --from TS        write the difference to the state at this TS\n" QUESTION_HELP
    "  -h, --help           this text\n"
    "\n"
    "Example: mmsql pprof heap.pftrace -o heap.pb.gz && go tool pprof -top heap.pb.gz\n";

struct options {
    const char *path, *output, *process, *heap; // borrowed; NULL: none
    const char *of;                             // borrowed; NULL: none
    struct strbuf pids;                         // each between commas; empty: all
    int64_t from, at;
    struct limits limits;
};

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, N_VALUES };

VEC_DEFINE(location_vec, uint64_t);

// The objects that the samples use. Ids in `stack` and `mappings` are the ids of the database plus
// one.
struct used {
    struct location_vec stack; // of the current sample
    struct map64 frames;
    struct map64 mappings; // -> enum mapping_lack
};

// Properties of at least one frame of a mapping.
enum mapping_lack { LACKS_FUNCTION = 1, LACKS_FILE = 2, LACKS_LINE = 4, HAS_INLINED = 8 };

static const char leaves_sql[] =
    "SELECT h.callsite_id, p.pid, p.name, h.heap_name, sum(max(h.count, 0)), sum(max(h.size, 0)), "
    "sum(h.count), sum(h.size) "
    "FROM heap_profile_allocation h LEFT JOIN process p USING (upid) "
    "WHERE h.ts > ?1 AND h.ts <= ?2 AND (?3 IS NULL OR instr(?3, ',' || p.pid || ',')) "
    "AND (?4 IS NULL OR p.name GLOB ?4) AND (?5 IS NULL OR h.heap_name = ?5) "
    "GROUP BY h.upid, h.heap_name, h.callsite_id ORDER BY h.upid, h.heap_name, h.callsite_id";

static const char up_sql[] = "SELECT parent_id, frame_id FROM stack_profile_callsite WHERE id = ?1";

// A frame's address is an address of the file's symbol table; pprof needs the address in the
// process.
static const char frames_sql[] =
    "SELECT f.id, f.mapping, f.rel_pc - g.load_bias - g.exact_offset + g.start, "
    "coalesce(nullif(f.deobfuscated_name, ''), nullif(s.name, ''), nullif(f.name, '')), "
    "s.source_file, s.line_number "
    "FROM stack_profile_frame f LEFT JOIN stack_profile_mapping g ON g.id = f.mapping "
    "LEFT JOIN stack_profile_symbol s ON s.symbol_set_id = f.symbol_set_id ORDER BY f.id, s.id";

// pprof takes the first mapping for the program itself.
static const char mappings_sql[] =
    "WITH program AS (SELECT DISTINCT p.name FROM heap_profile_allocation JOIN process p USING "
    "(upid) WHERE p.name != '' UNION SELECT DISTINCT p.name FROM perf_sample JOIN thread USING "
    "(utid) JOIN process p USING (upid) WHERE p.name != '') "
    "SELECT id, start, end, exact_offset, name, build_id FROM stack_profile_mapping g "
    "ORDER BY NOT EXISTS (SELECT 1 FROM program p WHERE g.name = p.name "
    "OR substr(g.name, -1 - length(p.name)) = '/' || p.name), id";

static const char times_sql[] =
    "WITH times AS (SELECT ts, ts_end FROM heap_profile WHERE NOT ?3 "
    "UNION ALL SELECT ts, ts FROM perf_sample WHERE ?3) "
    "SELECT (SELECT max(min(max(ts_end), ?2), ?1) + (SELECT clock_value - ts FROM clock_snapshot "
    "WHERE clock_name = 'REALTIME' LIMIT 1) FROM times), "
    "(SELECT min(max(ts_end), ?2) - max(min(ts), ?1) FROM times)";

static const char *text_or_none(sqlite3_stmt *row, int column)
{
    const char *text = column_text(row, column);
    return *text ? text : NULL;
}

static int stack_read(sqlite3_stmt *up, sqlite3_int64 callsite, struct used *used)
{
    int r = 0;
    location_vec_clear(&used->stack);
    for (bool more = true; r == 0 && more && used->stack.n < MAX_FRAMES;) {
        sqlite3_bind_int64(up, 1, callsite);
        more = sqlite3_step(up) == SQLITE_ROW;
        if (more) {
            uint64_t frame = (uint64_t)sqlite3_column_int64(up, 1);
            r = location_vec_push(&used->stack, frame + 1);
            if (r == 0)
                r = map64_set(&used->frames, frame, 0);
            more = sqlite3_column_type(up, 0) != SQLITE_NULL;
            callsite = sqlite3_column_int64(up, 0);
        }
        if (sqlite3_reset(up) != SQLITE_OK && r == 0)
            r = -ENOMEM;
    }
    return r;
}

static int perf_sample_write(sqlite3_stmt *leaf, sqlite3_stmt *up, struct used *used,
                             struct pprof *pprof)
{
    int64_t n_samples = sqlite3_column_int64(leaf, LEAF_SAMPLES);
    int r = stack_read(up, sqlite3_column_int64(leaf, LEAF_CALLSITE), used);
    struct pprof_label labels[3] = {{.key = "pid", .number = sqlite3_column_int64(leaf, LEAF_PID)}};
    size_t n = 1;
    if (text_or_none(leaf, LEAF_PROCESS))
        labels[n++] =
            (struct pprof_label){.key = "process", .text = text_or_none(leaf, LEAF_PROCESS)};
    if (text_or_none(leaf, LEAF_THREAD))
        labels[n++] =
            (struct pprof_label){.key = "thread", .text = text_or_none(leaf, LEAF_THREAD)};
    pprof_sample(pprof, &n_samples, 1, used->stack.items, used->stack.n, labels, n);
    return r;
}

static int perf_samples_write(sqlite3 *handle, const struct options *options, struct used *used,
                              struct pprof *pprof)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *leaf = NULL;
    CLEANUP(statement_finalizep) sqlite3_stmt *up = NULL;
    const struct sample_choice choice = {.of = options->of,
                                         .from = options->from,
                                         .pid = -1,
                                         .to = options->at,
                                         .pids = options->pids.text,
                                         .process = options->process,
                                         .by_thread = true};
    int code = sample_leaves_prepare(handle, &choice, &leaf);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle, up_sql, -1, &up, NULL);
    if (code != SQLITE_OK)
        return code;
    while ((code = sqlite3_step(leaf)) == SQLITE_ROW)
        if (perf_sample_write(leaf, up, used, pprof) < 0)
            return SQLITE_NOMEM;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int sample_write(sqlite3_stmt *leaf, sqlite3_stmt *up, struct used *used,
                        struct pprof *pprof)
{
    int64_t values[N_VALUES], any = 0;
    for (int i = 0; i < N_VALUES; i++)
        any |= values[i] = sqlite3_column_int64(leaf, 4 + i);
    if (!any)
        return 0;
    int r = stack_read(up, sqlite3_column_int64(leaf, 0), used);
    struct pprof_label labels[3] = {{.key = "pid", .number = sqlite3_column_int64(leaf, 1)}};
    size_t n = 1;
    if (text_or_none(leaf, 2))
        labels[n++] = (struct pprof_label){.key = "process", .text = text_or_none(leaf, 2)};
    if (text_or_none(leaf, 3))
        labels[n++] = (struct pprof_label){.key = "heap", .text = text_or_none(leaf, 3)};
    pprof_sample(pprof, values, N_VALUES, used->stack.items, used->stack.n, labels, n);
    return r;
}

static int samples_write(sqlite3 *handle, const struct options *options, struct used *used,
                         struct pprof *pprof)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *leaf = NULL;
    CLEANUP(statement_finalizep) sqlite3_stmt *up = NULL;
    int code = sqlite3_prepare_v2(handle, leaves_sql, -1, &leaf, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle, up_sql, -1, &up, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64(leaf, 1, options->from);
    sqlite3_bind_int64(leaf, 2, options->at);
    sqlite3_bind_text(leaf, 3, options->pids.text, -1, SQLITE_STATIC);
    sqlite3_bind_text(leaf, 4, options->process, -1, SQLITE_STATIC);
    sqlite3_bind_text(leaf, 5, options->heap, -1, SQLITE_STATIC);
    while ((code = sqlite3_step(leaf)) == SQLITE_ROW)
        if (sample_write(leaf, up, used, pprof) < 0)
            return SQLITE_NOMEM;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

// The location whose rows are being read. `frame` is -1 before the first row.
struct location {
    int64_t frame;
    uint64_t mapping, address;
    struct pprof_line lines[MAX_LINES];
    size_t n_lines;
};

static void location_finish(const struct location *location, struct pprof *pprof)
{
    if (location->frame >= 0)
        pprof_location(pprof, (uint64_t)location->frame + 1, location->mapping, location->address,
                       location->lines, location->n_lines);
}

static int location_begin(sqlite3_stmt *row, struct used *used, struct location *ret)
{
    ret->frame = sqlite3_column_int64(row, 0);
    ret->mapping = 0;
    ret->address = (uint64_t)sqlite3_column_int64(row, 2);
    ret->n_lines = 0;
    if (sqlite3_column_type(row, 1) == SQLITE_NULL)
        return 0;
    ret->mapping = (uint64_t)sqlite3_column_int64(row, 1) + 1;
    bool is_new;
    return map64_get_or_add(&used->mappings, ret->mapping, 0, &is_new) ? 0 : -ENOMEM;
}

static void line_add(sqlite3_stmt *row, struct used *used, struct location *location,
                     struct pprof *pprof)
{
    uint64_t ignored = 0, *lacks = map64_find(&used->mappings, location->mapping);
    const char *name = text_or_none(row, 3), *file = text_or_none(row, 4);
    int64_t line = sqlite3_column_int64(row, 5);
    lacks = lacks ? lacks : &ignored;
    *lacks |= (name ? 0u : LACKS_FUNCTION) | (file ? 0u : LACKS_FILE) | (line ? 0u : LACKS_LINE) |
              (location->n_lines ? HAS_INLINED : 0u);
    if (name && location->n_lines < MAX_LINES)
        location->lines[location->n_lines++] =
            (struct pprof_line){.function = pprof_function(pprof, name, file), .line = line};
}

static int locations_write(sqlite3 *handle, struct used *used, struct pprof *pprof)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    struct location location = {.frame = -1};
    int code = sqlite3_prepare_v2(handle, frames_sql, -1, &row, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        code = SQLITE_OK;
        if (!map64_find(&used->frames, (uint64_t)sqlite3_column_int64(row, 0)))
            continue;
        if (sqlite3_column_int64(row, 0) != location.frame) {
            location_finish(&location, pprof);
            if (location_begin(row, used, &location) < 0)
                return SQLITE_NOMEM;
        }
        line_add(row, used, &location, pprof);
    }
    location_finish(&location, pprof);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int mappings_write(sqlite3 *handle, const struct used *used, struct pprof *pprof)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(handle, mappings_sql, -1, &row, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        code = SQLITE_OK;
        uint64_t id = (uint64_t)sqlite3_column_int64(row, 0) + 1;
        const uint64_t *lacks = map64_find(&used->mappings, id);
        if (!lacks)
            continue;
        pprof_mapping(pprof, &(struct pprof_mapping){
                                 .id = id,
                                 .start = (uint64_t)sqlite3_column_int64(row, 1),
                                 .limit = (uint64_t)sqlite3_column_int64(row, 2),
                                 .file_offset = (uint64_t)sqlite3_column_int64(row, 3),
                                 .path = text_or_none(row, 4),
                                 .build_id = text_or_none(row, 5),
                                 .has_functions = !(*lacks & LACKS_FUNCTION),
                                 .has_files = !(*lacks & LACKS_FILE),
                                 .has_lines = !(*lacks & LACKS_LINE),
                                 .has_inlined = (*lacks & HAS_INLINED) != 0,
                             });
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int times_write(sqlite3 *handle, const struct options *options, struct pprof *pprof)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(handle, times_sql, -1, &row, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64(row, 1, options->from);
    sqlite3_bind_int64(row, 2, options->at);
    sqlite3_bind_int(row, 3, options->of != NULL);
    code = sqlite3_step(row);
    if (code == SQLITE_ROW)
        pprof_time(pprof, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

static int profile_write(sqlite3 *handle, const struct options *options, struct used *used,
                         struct pprof *pprof)
{
    int code;
    if (options->of) {
        pprof_sample_type(pprof, "samples", "count");
        pprof_default_sample_type(pprof, "samples");
        code = perf_samples_write(handle, options, used, pprof);
    } else {
        pprof_sample_type(pprof, "alloc_objects", "count");
        pprof_sample_type(pprof, "alloc_space", "bytes");
        pprof_sample_type(pprof, "inuse_objects", "count");
        pprof_sample_type(pprof, "inuse_space", "bytes");
        pprof_default_sample_type(pprof, "inuse_space");
        code = samples_write(handle, options, used, pprof);
    }
    if (code == SQLITE_OK)
        code = locations_write(handle, used, pprof);
    if (code == SQLITE_OK)
        code = mappings_write(handle, used, pprof);
    return code == SQLITE_OK ? times_write(handle, options, pprof) : code;
}

static void used_done(struct used *used)
{
    location_vec_done(&used->stack);
    map64_done(&used->frames);
    map64_done(&used->mappings);
}

static int profile_run(sqlite3 *handle, const struct options *options,
                       const struct output_file *file)
{
    CLEANUP(used_done) struct used used = {0};
    struct pprof pprof;
    int code = SQLITE_OK, r = pprof_begin(&pprof, file->fd);
    if (r == 0)
        code = profile_write(handle, options, &used, &pprof);
    r = pprof_end(&pprof);
    if (code != SQLITE_OK)
        say("%s: %s", options->path, sqlite3_errmsg(handle));
    else if (r < 0)
        say("%s: %s", output_file_name(file), strerror(-r));
    else if (used.frames.n == 0)
        say("%s: no %s that match%s", options->path, options->of ? "samples" : "heap profile",
            options->of ? "" : "es");
    return code == SQLITE_OK && r == 0 && used.frames.n > 0 ? EXIT_DONE : EXIT_FAILED;
}

// Writes the profile. An incomplete profile is not published.
static int pprof_run(const struct options *options)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    CLEANUP(question_closep) sqlite3 *handle = NULL;
    CLEANUP(output_file_done) struct output_file file = OUTPUT_FILE_INIT;
    struct err err = {0};
    bool is_cut;
    if (!question_sandbox(options->path, options->output, &options->limits, &cache) ||
        question_open(options->path, &options->limits, &cache, &handle, &is_cut) != SQLITE_OK)
        return EXIT_FAILED;
    int r = output_file_open(&file, options->output, &err);
    if (r == 0 && profile_run(handle, options, &file) != EXIT_DONE)
        return EXIT_FAILED;
    if (r == 0)
        r = output_file_publish(&file, &err);
    if (r < 0)
        err_print(&err, "mmsql");
    return r < 0 || is_cut ? EXIT_FAILED : EXIT_DONE;
}

static int take_pids(void *to, const struct verb_option *option, char *list, int argc, char **argv)
{
    (void)option, (void)argc, (void)argv;
    struct options *options = to;
    int64_t pid;
    strbuf_clear(&options->pids);
    for (char *word; (word = strsep(&list, ","));) {
        if (str_parse_i64(word, &pid) < 0 || pid < 0)
            return usage_error("pprof", "--pid %s: not a number from 0", word);
        strbuf_addf(&options->pids, ",%lld", (long long)pid);
    }
    strbuf_add_char(&options->pids, ',');
    return options->pids.failed ? usage_error("pprof", "--pid: out of memory") : 0;
}

static void options_done(struct options *options)
{
    strbuf_done(&options->pids);
}

static int run_pprof(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"output", OPTION_TEXT, offsetof(struct options, output), 'o'},
        {"of", OPTION_TEXT, offsetof(struct options, of)},
        {"pid", OPTION_OWN, .take = take_pids},
        {"process", OPTION_TEXT, offsetof(struct options, process)},
        {"heap", OPTION_TEXT, offsetof(struct options, heap)},
        {"at", OPTION_NUMBER, offsetof(struct options, at)},
        {"from", OPTION_NUMBER, offsetof(struct options, from)},
        QUESTION_OPTIONS(struct options),
        {0},
    };
    CLEANUP(options_done) struct options options = {.from = INT64_MIN, .at = INT64_MAX};
    int code;
    if (!verb_options_read("pprof", help, rows, argc, argv, &options, &code))
        return code;
    if (argc - optind != 1)
        return usage_error("pprof", "one database or trace is needed");
    if ((!options.output || str_eq(options.output, "-")) && isatty(STDOUT_FILENO))
        return usage_error("pprof", "a terminal cannot show a profile: -o FILE is needed");
    if (options.of && str_eq(options.of, "heap"))
        options.of = NULL;
    if (options.of && options.heap)
        return usage_error("pprof", "--heap and --of samples do not go together");
    options.path = argv[optind];
    return pprof_run(&options);
}

const struct program_verb verb_pprof = {
    .name = "pprof",
    .arguments = "[OPTION]... DB|TRACE -o FILE.pb.gz",
    .summary = "write profiles of heaps, CPU time and page faults for pprof",
    .run = run_pprof,
};
