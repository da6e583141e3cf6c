// SPDX-License-Identifier: Apache-2.0
//
// mmsql flamegraph: heap profiles, samples of CPU time, page faults and other events, or logs of
// Java allocations, as a picture, or as folded text for other tools. The rows of a dump are the
// changes since the dump before, so the state at a time is the sum of all rows up to that time.
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/output_file.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/profile/alloc_stacks.h"
#include "converter/profile/call_stacks.h"
#include "converter/profile/flame.h"

static const char help[] =
    "usage: mmsql flamegraph [OPTION]... DB|TRACE [DB|TRACE]\n"
    "\n"
    "Draws heap profiles, samples of CPU time and page faults, or logs of Java\n"
    "allocations, as a flame graph, an SVG that zooms (click) and searches ('/').\n"
    "With two traces the picture shows the difference: red grew, blue shrank.\n"
    "\n"
    "      --of WHAT        heap, cpu, faults, reclaim, java, or the event that was\n"
    "                       sampled, such as 'kmem:*'; default: the first kind\n"
    "                       that the trace has\n"
    "  -o, --output FILE    write there; '-', the default, is standard output\n"
    "      --folded         write text instead: one line for each stack, with its\n"
    "                       weight\n"
    "      --total          show all allocations, freed or not (default: memory that\n"
    "                       is not freed)\n"
    "      --count          count allocations instead of bytes\n"
    "      --pid PID        show this process\n"
    "      --process NAME   show the processes that match (* and ?)\n"
    "      --heap NAME      show this heap, such as libc.malloc\n"
    "      --at TS          show the state at TS (ns; default: the end of the trace)\n"
    "      --diff TS TS     show the difference between two moments: red grew, blue\n"
    "                       shrank\n"
    "      --from TS        show samples after TS; with --at, between the two\n"
    "      --by-thread      give each thread a frame (samples only)\n"
    "      --reverse-stack  innermost frames first\n"
    "      --depth-limit N  no more than N frames of a stack\n"
    "      --min-percent P  leave out frames with less than P % of the whole (default\n"
    "                       0.02)\n" QUESTION_HELP "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  mmsql flamegraph heap.pftrace -o heap.svg\n"
    "  mmsql flamegraph --of cpu --by-thread cpu.pftrace -o cpu.svg\n"
    "  mmsql flamegraph before.pftrace after.pftrace -o difference.svg\n"
    "\n"
    "For logs of Java allocations (with one of these options, or if the trace has no\n"
    "heap profile):\n"
    "      --alloc-log      count samples; frames are thread, methods and type of the\n"
    "                       object\n"
    "      --use-size       count the bytes of the sampled objects instead\n"
    "      --ignore-type    leave out the type\n"
    "      --type-only      show only the type\n"
    "      --thread-only    show only the thread\n";

struct options {
    const char *output, *process, *heap; // borrowed; NULL: none
    const char *of;                      // borrowed; NULL: none
    char *const *paths;                  // borrowed
    size_t n_paths;                      // 2: the difference is drawn
    int64_t pid;                         // -1: all
    int64_t before, at;
    int64_t from; // of samples
    double min_percent;
    struct limits limits;
    bool folded, total, count, diff, alloc_log;
    bool samples; // draw samples, not a heap profile
    bool by_thread;
    struct alloc_stacks stacks; // `reverse` and `depth_limit` hold for heap profiles, too
};

static bool is_of(const struct options *options, const char *what)
{
    return options->of && str_eq(options->of, what);
}

// Returns true if an option only for heap profiles is given.
static bool names_heaps(const struct options *o)
{
    return o->total || o->count || o->diff || o->heap || is_of(o, "heap");
}

// Returns true if an option only for samples is given.
static bool names_samples(const struct options *o)
{
    return o->from != INT64_MIN || o->by_thread ||
           (o->of && !is_of(o, "heap") && !is_of(o, "java"));
}

// Returns true if an option for heap profiles or for samples is given.
static bool names_profiles(const struct options *o)
{
    return names_heaps(o) || names_samples(o) || o->pid >= 0 || o->process || o->at != INT64_MAX;
}

// Reads samples. If the user names no kind, reads the first kind that the trace has, and this kind
// of a second trace.
static int samples_read(sqlite3 *handle, struct options *options, struct call_stacks *stacks,
                        struct flame *flame)
{
    static const char *const kinds[] = {"cpu", "faults", "reclaim", "*"};
    int code = SQLITE_OK;
    stacks->kind = STACKS_OF_EVENT;
    if (stacks->of)
        return call_stacks_read(handle, stacks, flame);
    for (size_t i = 0; code == SQLITE_OK && flame->nodes.n == 0 && i < ELEMENTS(kinds); i++) {
        stacks->of = kinds[i];
        code = call_stacks_read(handle, stacks, flame);
    }
    if (flame->nodes.n > 0 && options->n_paths > 1)
        options->of = stacks->of;
    return code;
}

// Reads the stacks that the options name. Without such options, reads the first kind that the trace
// has: a heap profile, samples, or samples of logs.
static int stacks_read(sqlite3 *handle, struct options *options, struct flame *flame)
{
    struct call_stacks stacks = {
        .kind = options->count ? STACKS_HEAP_COUNT : STACKS_HEAP_BYTES,
        .before = options->diff ? options->before : INT64_MIN,
        .at = options->at,
        .total = options->total,
        .pid = options->pid,
        .upid = -1,
        .machine_id = -1,
        .process = options->process,
        .heap = options->heap,
        .of = names_samples(options) ? options->of : NULL,
        .from = options->from,
        .by_thread = options->by_thread,
        .without_pid = options->n_paths > 1, // another run has other pids
        .reverse = options->stacks.reverse,
        .depth_limit = options->stacks.depth_limit,
    };
    int code = SQLITE_OK;
    if (!options->alloc_log && !names_samples(options))
        code = call_stacks_read(handle, &stacks, flame);
    if (code != SQLITE_OK || flame->nodes.n > 0)
        return code;
    options->samples = !options->alloc_log && !names_heaps(options) && !is_of(options, "java");
    if (options->samples)
        code = samples_read(handle, options, &stacks, flame);
    bool is_java = is_of(options, "java");
    if (code != SQLITE_OK || flame->nodes.n > 0 || (names_profiles(options) && !is_java))
        return code;
    options->samples = false;
    options->alloc_log = true;
    return alloc_stacks_read(handle, &options->stacks, flame);
}

static const char *sampled_text(const struct options *options)
{
    return is_of(options, "cpu")       ? "CPU time"
           : is_of(options, "faults")  ? "Page faults"
           : is_of(options, "reclaim") ? "Reclaim and compaction"
                                       : "Sampled events";
}

struct picture {
    const struct options *options;
    const struct flame *flame;
};

static int picture_fill(void *userdata, FILE *out, struct err *err)
{
    const struct picture *picture = userdata;
    const struct options *options = picture->options;
    char title[160];
    bool is_sampled = options->alloc_log || options->samples;
    bool bytes = options->samples     ? false
                 : options->alloc_log ? options->stacks.use_size
                                      : !options->count;
    const char *what = options->samples     ? sampled_text(options)
                       : options->alloc_log ? "Sampled"
                       : options->total     ? "Allocated"
                                            : "Retained";
    if (options->folded) {
        flame_folded(picture->flame, out);
        return 0;
    }
    flame_title(title, sizeof(title), picture->flame, what,
                bytes              ? "bytes"
                : options->samples ? "samples"
                                   : "allocations");
    const struct flame_look look = {.title = title,
                                    .unit = bytes        ? "bytes"
                                            : is_sampled ? "samples"
                                                         : "allocations",
                                    .min_share = options->min_percent / 100};
    int r = flame_svg(picture->flame, &look, out);
    return r < 0 ? err_errno(err, r, "flame graph") : 0;
}

// Reads the stacks of one database or trace. Returns an exit code.
static int trace_read(struct options *options, const char *path, const struct trace_cache *cache,
                      struct flame *flame, bool *is_cut)
{
    CLEANUP(question_closep) sqlite3 *handle = NULL;
    bool this_is_cut;
    if (question_open(path, &options->limits, cache, &handle, &this_is_cut) != SQLITE_OK)
        return EXIT_FAILED;
    *is_cut |= this_is_cut;
    if (stacks_read(handle, options, flame) != SQLITE_OK) {
        say("%s: %s", path, sqlite3_errmsg(handle));
        return EXIT_FAILED;
    }
    if (flame->nodes.n == 0) {
        const char *lacks = names_samples(options) ? "samples that match"
                            : options->alloc_log && !names_profiles(options)
                                ? "samples of allocations"
                                : "heap profile that matches";
        say("%s: no %s", path, lacks);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int difference_read(struct options *options, const struct trace_cache *cache,
                           struct flame *flame, bool *is_cut)
{
    int code = EXIT_DONE;
    flame->is_diff = true;
    for (size_t i = 0; code == EXIT_DONE && i < options->n_paths; i++) {
        CLEANUP(flame_done) struct flame one = {0};
        bool is_before = i == 0, has_samples = options->samples, has_log = options->alloc_log;
        code = trace_read(options, options->paths[i], cache, &one, is_cut);
        if (code == EXIT_DONE && !is_before &&
            (has_samples != options->samples || has_log != options->alloc_log)) {
            say("%s: the profiles differ in their kind (choose one by --of)", options->paths[i]);
            code = EXIT_FAILED;
        }
        if (code == EXIT_DONE && flame_add_tree(flame, &one, is_before) < 0) {
            say("%s: memory ran out", options->paths[i]);
            code = EXIT_FAILED;
        }
    }
    return code;
}

static int flamegraph_run(struct options *options)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    CLEANUP(flame_done) struct flame flame = {.is_diff = options->diff};
    bool is_cut = false;
    if (!questions_sandbox((const char *const *)options->paths, options->n_paths, options->output,
                           &options->limits, &cache))
        return EXIT_FAILED;
    int code = options->n_paths > 1
                   ? difference_read(options, &cache, &flame, &is_cut)
                   : trace_read(options, options->paths[0], &cache, &flame, &is_cut);
    if (code != EXIT_DONE)
        return code;
    flame_finish(&flame);
    struct picture picture = {.options = options, .flame = &flame};
    code = output_file_write(options->output, picture_fill, &picture);
    return is_cut ? EXIT_FAILED : code;
}

static int take_diff(void *to, const struct verb_option *option, char *text, int argc, char **argv)
{
    (void)option;
    struct options *options = to;
    options->diff = true;
    if (optind >= argc)
        return usage_error("flamegraph", "--diff %s: a second time is needed", text);
    const char *at = argv[optind++];
    return str_parse_i64(text, &options->before) == 0 && str_parse_i64(at, &options->at) == 0
               ? 0
               : usage_error("flamegraph", "--diff %s %s: not two numbers", text, at);
}

static int take_depth(void *to, const struct verb_option *option, char *text, int argc, char **argv)
{
    (void)option, (void)argc, (void)argv;
    uint32_t *limit = &((struct options *)to)->stacks.depth_limit;
    return str_parse_u32(text, limit) == 0 && *limit > 0
               ? 0
               : usage_error("flamegraph", "--depth-limit %s: not a number from 1", text);
}

static int take_percent(void *to, const struct verb_option *option, char *text, int argc,
                        char **argv)
{
    (void)option, (void)argc, (void)argv;
    char *end;
    double percent = ((struct options *)to)->min_percent = strtod(text, &end);
    return end != text && !*end && percent >= 0 && percent <= 100
               ? 0
               : usage_error("flamegraph", "--min-percent %s: not a number from 0 to 100", text);
}

#define AT(member) offsetof(struct options, member)

static int run_flamegraph(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"output", OPTION_TEXT, AT(output), 'o'},
        {"of", OPTION_TEXT, AT(of)},
        {"from", OPTION_NUMBER, AT(from)},
        {"by-thread", OPTION_FLAG, AT(by_thread)},
        {"folded", OPTION_FLAG, AT(folded)},
        {"total", OPTION_FLAG, AT(total)},
        {"count", OPTION_FLAG, AT(count)},
        {"pid", OPTION_NATURAL, AT(pid)},
        {"process", OPTION_TEXT, AT(process)},
        {"heap", OPTION_TEXT, AT(heap)},
        {"at", OPTION_NUMBER, AT(at)},
        {"diff", OPTION_OWN, .take = take_diff},
        {"reverse-stack", OPTION_FLAG, AT(stacks.reverse)},
        {"depth-limit", OPTION_OWN, .take = take_depth},
        {"min-percent", OPTION_OWN, .take = take_percent},
        {"alloc-log", OPTION_FLAG, AT(alloc_log)},
        {"use-size", OPTION_FLAG, AT(stacks.use_size)},
        {"ignore-type", OPTION_FLAG, AT(stacks.ignore_type)},
        {"type-only", OPTION_FLAG, AT(stacks.type_only)},
        {"thread-only", OPTION_FLAG, AT(stacks.thread_only)},
        QUESTION_OPTIONS(struct options),
        {0},
    };
    struct options options = {.pid = -1,
                              .at = INT64_MAX,
                              .from = INT64_MIN,
                              .min_percent = 0.02,
                              .stacks.depth_limit = CALL_STACK_MAX};
    const struct alloc_stacks *stacks = &options.stacks;
    int code;
    if (!verb_options_read("flamegraph", help, rows, argc, argv, &options, &code))
        return code;
    options.alloc_log |=
        stacks->use_size || stacks->ignore_type || stacks->type_only || stacks->thread_only;
    if (options.alloc_log && names_profiles(&options))
        return usage_error("flamegraph",
                           "options of heap profiles and of allocation logs do not go together");
    if (names_samples(&options) && (names_heaps(&options) || options.alloc_log))
        return usage_error("flamegraph",
                           "options of samples and of heap profiles do not go together");
    if (is_of(&options, "java") && !options.alloc_log && !options.heap)
        options.heap = "com.android.art";
    if (stacks->type_only && (stacks->thread_only || stacks->ignore_type))
        return usage_error("flamegraph",
                           "--type-only does not go with --thread-only and --ignore-type");
    options.paths = argv + optind;
    options.n_paths = (size_t)(argc - optind);
    if (options.n_paths < 1 || options.n_paths > 2)
        return usage_error("flamegraph",
                           "one database or trace is needed, or two for their difference");
    if (options.n_paths == 2 && options.diff)
        return usage_error("flamegraph", "--diff compares two moments of one trace");
    if (options.n_paths == 2 && str_eq(options.paths[0], "-") && str_eq(options.paths[1], "-"))
        return usage_error("flamegraph",
                           "standard input can be read once only: '-' is there twice");
    return flamegraph_run(&options);
}

const struct program_verb verb_flamegraph = {
    .name = "flamegraph",
    .arguments = "[OPTION]... DB|TRACE [DB|TRACE] -o FILE.svg",
    .summary = "draw profiles of heaps, CPU time and page faults as a flame graph",
    .run = run_flamegraph,
};
