// SPDX-License-Identifier: Apache-2.0
//
// `pintool file`. Subjects are examined, printed and dropped one after the other, so memory does
// not grow with their number. A pinlist is written last, and only if all steps before succeeded.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "producer/pintool/emit_pinconfig.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/list_output.h"
#include "producer/pintool/list_source.h"
#include "producer/pintool/pin_subject.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"
#include "producer/pintool/report.h"
#include "producer/pintool/stale.h"
#include "producer/pintool/targets.h"
#include "producer/pintool/watch.h"
#include "producer/pintool/whole_file.h"

#define PINCONFIG_BYTES_MAX ((size_t)16 << 20)
#define REPORTS_MAX         3

// One run of `pintool file`.
struct run {
    struct file_options options;
    struct targets targets;
    struct residency_probe *probe;
    struct page_ranges listed;
    struct list_source listed_source; // of the pinlist that serves as the probe
    struct pinconfig pinconfig;
    struct stale stale; // of the pinconfig
    struct list_output output;
    struct subject_plan plan;
    struct report_options report_options;
    struct report reports[REPORTS_MAX];
    size_t n_reports;
    bool failed;
    bool other_build;           // the pinlist that serves as the probe does not fit
    size_t n_unread, n_unknown; // files that were found in folders, not named
    struct err first_unread;    // of the first unread file
};

static void run_done(struct run *run)
{
    file_options_done(&run->options);
    targets_done(&run->targets);
    run->probe = residency_probe_free(run->probe);
    page_ranges_done(&run->listed);
    list_source_done(&run->listed_source);
    stale_done(&run->stale);
    list_output_done(&run->output);
    pinconfig_done(&run->pinconfig);
    for (size_t i = 0; i < run->n_reports; i++)
        strbuf_done(&run->reports[i].rows);
}

static void fail(struct run *run, const struct err *err)
{
    fflush(stdout);
    err_print(err, PINTOOL);
    run->failed = true;
}

__attribute__((format(printf, 3, 4))) static void fail_with(struct run *run, const char *hint,
                                                            const char *format, ...)
{
    struct err err = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    err_hint(&err, 0, "%s", hint);
    fail(run, &err);
}

static void print_settings(const struct file_options *options)
{
    int probe = options->gen_probe ? 1 : options->use_probe ? 2 : 0;
    printf("Setting output pinlist file: %s\n", options->output ? options->output : "");
    for (size_t i = 0; i < options->paths.n; i++)
        printf("Setting input file: %s\n", options->paths.items[i]);
    printf("Setting pinconfig file: %s\n", options->pinconfig ? options->pinconfig : "");
    printf("Setting custom probe file: %s\n", options->use_probe ? options->use_probe : "");
    printf("Setting probe type: %d\nDump enabled: %d\nIs Zip file: %d\n", probe, options->dump,
           options->zip);
    if (options->quota_bytes != PINLIST_NO_QUOTA)
        printf("Set Write quota: %" PRIu64 "\n", options->quota_bytes);
}

static int load_pinconfig(struct run *run, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const char *path = run->options.pinconfig;
    int r = whole_file_read(path, PINCONFIG_BYTES_MAX, &text, err);
    return r < 0 ? r : pinconfig_parse(text.text, text.size, path, &run->pinconfig, err);
}

static int load_probe(struct run *run, struct err *err)
{
    CLEANUP(pinlist_done) struct pinlist list = {0};
    int r = pinlist_file_read(run->options.use_probe, &list, &run->listed_source, err);
    if (r < 0)
        return r;
    return pinlist_to_ranges(&list, &run->listed) < 0
               ? err_errno(err, -ENOMEM, "%s", run->options.use_probe)
               : 0;
}

static int find_targets(struct run *run, struct err *err)
{
    if (run->options.pid)
        return targets_add_process(&run->targets, run->options.pid, err);
    for (size_t i = 0; i < run->options.paths.n; i++) {
        struct err problem = {0};
        int r = targets_add_path(&run->targets, run->options.paths.items[i], &problem);
        if (r == -ENOMEM)
            return err_set(err, r, "%s", problem.text);
        if (r < 0)
            fail(run, &problem);
    }
    return 0;
}

static void report_add(struct run *run, const struct report_kind *kind)
{
    run->reports[run->n_reports++] = (struct report){.kind = kind, .options = &run->report_options};
}

static void choose_reports(struct run *run)
{
    const struct file_options *options = &run->options;
    run->report_options = (struct report_options){
        .verbose = options->verbose,
        .dump = options->dump,
        .zip = options->zip,
        .gen_probe = options->gen_probe,
        .use_probe = options->use_probe,
        .pinconfig_path = options->pinconfig,
        .svg_path = options->svg,
        .stream_fd = run->output.stream_fd,
        .pinconfig = options->pinconfig ? &run->pinconfig : NULL,
    };
    if (options->json)
        report_add(run, &report_json);
    else if (options->dump || !(options->map || options->svg))
        report_add(run, &report_text);
    if (options->map)
        report_add(run, &report_map);
    if (options->svg)
        report_add(run, &report_svg);
}

static int prepare(struct run *run, struct err *err)
{
    const struct file_options *options = &run->options;
    int r = residency_probe_new(RESIDENCY_AUTO, &run->probe);
    if (r < 0)
        return err_errno(err, r, "the probe");
    if (options->pinconfig)
        r = load_pinconfig(run, err);
    if (r == 0 && options->use_probe)
        r = load_probe(run, err);
    if (r == 0)
        r = find_targets(run, err);
    run->plan = (struct subject_plan){
        .probe = run->probe,
        .origin = options->gen_probe   ? PROBE_CACHE
                  : options->use_probe ? PROBE_PINLIST
                                       : PROBE_NONE,
        .listed = &run->listed,
        .counts = options->json,
        .zip = options->zip,
        .pinconfig = options->pinconfig ? &run->pinconfig : NULL,
    };
    choose_reports(run);
    return r;
}

// Files that were found in folders, not named, can be anything, and are only counted.
static void note_unread(struct run *run, const struct target *target, const struct err *err)
{
    if (target->named) {
        fail(run, err);
        return;
    }
    if (!run->n_unread++)
        run->first_unread = *err;
}

static void note_unknown(struct run *run, const struct subject *subject)
{
    if (!subject->target->named)
        run->n_unknown++;
    else
        fail_with(run,
                  "the kernel tells this only to the file's owner and to users who may write to it",
                  "%s: it is unknown which of its pages are in memory", subject->target->path);
}

// A list can belong to another build even if none of its bytes lie beyond the end.
static void note_other_build(struct run *run, const struct subject *subject)
{
    struct err err = {0};
    if (list_source_check(&run->listed_source, &subject->zip, run->options.use_probe,
                          subject->target->path, subject->beyond_bytes, &err) == 0)
        return;
    fflush(stdout);
    err_print(&err, PINTOOL);
    run->other_build = true;
}

// A stale pattern is reported only if no zip uses it, so all zips are examined first.
static void note_stale(struct run *run)
{
    if (!run->options.pinconfig)
        return;
    fflush(stdout);
    stale_print(&run->stale, &run->pinconfig, run->options.pinconfig, PINTOOL, stderr);
}

static const struct coverages *chosen(const struct run *run, const struct subject *subject)
{
    return run->options.pinconfig ? &subject->filtered : &subject->entries;
}

static const char *why_empty(const struct run *run, const struct subject *subject)
{
    const struct file_options *options = &run->options;
    if (options->pinconfig && !subject->filtered.items.n)
        return "the pinconfig matches no entry";
    if (subject->origin == PROBE_CACHE && !subject->resident_bytes)
        return "nothing of the file is in memory";
    if (subject->origin == PROBE_PINLIST && !subject->resident_bytes)
        return "the probe names nothing of the file";
    if (options->pinconfig && subject->origin == PROBE_CACHE)
        return "nothing that the pinconfig names is in memory";
    if (options->pinconfig)
        return "the ranges of the pinconfig have no bytes of the entries";
    return "no entry has a byte in the pages that were found";
}

// Makes the pinlist from the filtered entries if there is a filter, else from all entries of a zip,
// or from the file.
static void pinlist_write(struct run *run, const struct subject *subject)
{
    CLEANUP(pinlist_done) struct pinlist list = {0};
    struct err err = {0};
    struct list_made_of made_of = {
        .path = subject->target->path,
        .zip = run->options.zip ? &subject->zip : NULL,
        .size_bytes = subject->size_bytes,
        .why_empty = why_empty(run, subject),
    };
    const struct page_ranges *ranges =
        run->options.zip ? &chosen(run, subject)->pool : &subject->resident;
    int r = pinlist_from_ranges(ranges, residency_page_size(run->probe), run->options.quota_bytes,
                                &list, &err);
    if (r < 0)
        err_prefix(&err, r, "%s", run->options.output);
    else if (run->options.pinconfig && !subject->filtered.items.n && !run->options.allow_empty)
        r = err_set(&err, -ENOENT, "%s: the pinconfig matches no entry: no pinlist is written",
                    subject->target->path);
    else
        r = list_output_write(&run->output, &list, &made_of, &err);
    if (r < 0) {
        fail(run, &err);
        return;
    }
    for (size_t i = 0; i < run->n_reports; i++)
        if (run->reports[i].kind->pinlist)
            run->reports[i].kind->pinlist(&run->reports[i], run->options.output, &list);
}

static void pinconfig_write(struct run *run, const struct subject *subject)
{
    struct err err = {0};
    if (emit_pinconfig_write(&run->output, run->options.emit_pinconfig, &subject->zip,
                             chosen(run, subject), subject->target->path, &err) < 0)
        fail(run, &err);
}

// Writes the requested files, unless a step has failed or the probe is of another build: a list
// that is made from a wrong list would be wrong as well.
static void write_files(struct run *run, const struct subject *subject)
{
    if (run->failed || !(run->options.output || run->options.emit_pinconfig))
        return;
    if (run->other_build) {
        fail_with(
            run,
            "make a new probe with --gen-probe; or carry the ranges over, with --emit-pinconfig "
            "for the other build and --pinconfig for this one",
            "%s: nothing is written: the probe is of another build", subject->target->path);
        return;
    }
    if (run->options.output)
        pinlist_write(run, subject);
    if (run->options.emit_pinconfig)
        pinconfig_write(run, subject);
}

static void look_at(struct run *run, const struct target *target)
{
    CLEANUP(subject_done) struct subject subject = {0};
    struct err err = {0};
    if (subject_look(target, &run->plan, &subject, &err) < 0) {
        note_unread(run, target, &err);
        return;
    }
    for (size_t i = 0; i < run->n_reports; i++)
        run->reports[i].kind->subject(&run->reports[i], &subject);
    if (subject.origin == PROBE_UNKNOWN)
        note_unknown(run, &subject);
    if (subject.origin == PROBE_PINLIST)
        note_other_build(run, &subject);
    if (subject.zip.n_damaged)
        fail_with(run, "", "%s: damaged entries are left out (%zu); the first: %s", target->path,
                  subject.zip.n_damaged, subject.zip.first_damaged);
    if (run->options.pinconfig &&
        stale_note(&run->stale, &run->pinconfig, &subject.zip, target->path) < 0) {
        err_errno(&err, -ENOMEM, "%s", run->options.pinconfig);
        fail(run, &err);
    }
    if (run->targets.items.n == 1)
        note_stale(run);
    write_files(run, &subject);
}

static void print_notes(const struct run *run)
{
    const struct {
        size_t n;
        const char *what, *first;
    } notes[] = {
        {run->n_unread, "files could not be looked at; the first: ", run->first_unread.text},
        {run->n_unknown, "files: the kernel does not tell this user which pages are in memory", ""},
        {run->targets.n_skipped,
         "directories could not be read; the first: ", run->targets.first_skipped},
    };
    for (size_t i = 0; i < ELEMENTS(notes); i++) {
        struct err err = {0};
        err_set(&err, 0, "%zu %s%s", notes[i].n, notes[i].what, notes[i].first);
        if (!notes[i].n)
            continue;
        fflush(stdout);
        err_print(&err, PINTOOL);
    }
}

static int run_once(struct run *run)
{
    if (run->options.output && run->targets.items.n != 1 && !run->failed) {
        struct err err = {0};
        err_set(&err, 0, "-o writes the pinlist of one file; there are %zu", run->targets.items.n);
        err_print(&err, PINTOOL);
        return PROGRAM_USAGE;
    }
    if (run->options.verbose && !run->options.json)
        print_settings(&run->options);
    for (size_t i = 0; i < run->n_reports; i++)
        if (run->reports[i].kind->begin)
            run->reports[i].kind->begin(&run->reports[i]);
    vec_foreach(&run->targets.items, target)
        look_at(run, target);
    if (run->targets.items.n > 1)
        note_stale(run);
    for (size_t i = 0; i < run->n_reports; i++) {
        struct err err = {0};
        if (run->reports[i].kind->end && run->reports[i].kind->end(&run->reports[i], &err) < 0)
            fail(run, &err);
    }
    print_notes(run);
    int r = pintool_close_stdout();
    return run->failed ? PROGRAM_FAILED : r;
}

// Missing files were reported at the start; they may appear later.
static int find_again(void *userdata, struct targets *ret, struct err *err)
{
    const struct file_options *options = userdata;
    if (options->pid)
        return targets_add_process(ret, options->pid, err);
    for (size_t i = 0; i < options->paths.n; i++)
        if (targets_add_path(ret, options->paths.items[i], err) == -ENOMEM)
            return -ENOMEM;
    return 0;
}

static int run_watch(struct run *run)
{
    struct err err = {0};
    struct watch_finder finder = {.find = find_again, .userdata = &run->options};
    if (watch_run(&run->targets, &finder, &run->options, run->probe, &err) < 0)
        fail(run, &err);
    int r = pintool_close_stdout();
    return run->failed ? PROGRAM_FAILED : r;
}

static int claim_stdout(struct run *run, struct err *err)
{
    const struct file_options *options = &run->options;
    const char *const texts[] = {options->svg, options->emit_pinconfig};
    bool text = false;
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        text |= path_is_stream(texts[i]);
    run->output.path = options->output;
    run->output.allow_empty = options->allow_empty;
    return list_output_open(&run->output, text, err);
}

int pintool_file(int argc, char **argv)
{
    CLEANUP(run_done) struct run run = {.output.stream_fd = -1};
    struct err err = {0};
    int r = file_options_parse(argc, argv, &run.options, &err);
    if (r != 0)
        return cli_command_wrong(&file_command, r, &err);
    if (claim_stdout(&run, &err) < 0 || prepare(&run, &err) < 0) {
        err_print(&err, PINTOOL);
        return PROGRAM_FAILED;
    }
    return run.options.watch ? run_watch(&run) : run_once(&run);
}
