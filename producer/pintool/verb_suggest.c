// SPDX-License-Identifier: Apache-2.0
//
// `pintool suggest`: makes a pinlist from a recording. mmsql reads the recording; this file chooses
// the pages (choice.h) and explains the choice.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/options.h"
#include "producer/pintool/choice.h"
#include "producer/pintool/emit_pinconfig.h"
#include "producer/pintool/explain.h"
#include "producer/pintool/gather.h"
#include "producer/pintool/list_output.h"
#include "producer/pintool/pintool.h"
#include "producer/pintool/zip_source.h"
#include "producer/sources/residency/probe.h"

struct command_line {
    const char *recording, *file, *output, *emit_pinconfig, *recorded_as, *mmsql;
    uint64_t quota_bytes;
    bool allow_empty, explain, json;
};

enum { RECORDING, THE_FILE, OUTPUT, EMIT_PINCONFIG, RECORDED_AS, MMSQL };

// Takes a text that may be given once.
static int take_text(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct command_line *line = userdata;
    const char **const texts[] = {&line->recording,      &line->file,        &line->output,
                                  &line->emit_pinconfig, &line->recorded_as, &line->mmsql};
    const char **text = texts[option ? option->id : RECORDING];
    if (*text)
        return err_set(err, -EINVAL, "\"%s\": \"%s\" is given already", value, *text);
    *text = value;
    return 0;
}

#define SETS(member) CLI_SETS(struct command_line, member)

static const struct cli_option options[] = {
    {0, "file", "FILE", "the file whose pages are to be pinned", .take = take_text, .id = THE_FILE},
    {0, "quota", "BYTES", "pin at most BYTES, as in 40MB", SETS(quota_bytes), .min = 1},
    {'o', NULL, "PINLIST", "the pinlist.meta to write; an empty list does not replace another list",
     .take = take_text, .id = OUTPUT},
    {0, "allow-empty", NULL, "with -o: let an empty list replace another one", SETS(allow_empty)},
    {0, "emit-pinconfig", "FILE",
     "for a zip: write a pinconfig.txt with the same ranges, relative to the entries, for later "
     "builds of the zip",
     .take = take_text, .id = EMIT_PINCONFIG},
    {0, "explain", NULL, "print each range with the reasons", SETS(explain)},
    {0, "json", NULL, "print the ranges and reasons as JSON", SETS(json)},
    {0, "recorded-as", "PATH", "the file's name in the recording; default: FILE", .take = take_text,
     .id = RECORDED_AS},
    {0, "mmsql", "PROGRAM", "mmsql; default: beside pintool, or in PATH", .take = take_text,
     .id = MMSQL},
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    const struct cli_rule rules[] = {
        {!line->recording, "no trace or database given"},
        {!line->file, "--file is missing: the file whose pages are to be pinned"},
        {!line->quota_bytes, "--quota is missing: how much may be pinned"},
        {!line->output && !line->emit_pinconfig && !line->explain && !line->json,
         "neither -o nor --emit-pinconfig nor --explain nor --json: nothing to do"},
        {path_is_stream(line->output) && path_is_stream(line->emit_pinconfig),
         "standard output can take one file only: '-' is there twice"},
        {line->allow_empty && !line->output, "--allow-empty is for -o"},
        {path_is_stream(line->file),
         "--file -: standard input has no pages of its own: name the file"},
        {0},
    };
    return cli_check(rules, err);
}

// The state of one run.
struct suggestion {
    const struct command_line *line;
    struct residency_probe *probe; // owned
    int fd;                        // owned
    struct stat st;
    uint64_t page_size;
    struct evidence evidence; // owned
    struct gather_sources sources;
    struct page_ranges chosen; // owned; pages
    struct zipindex zip;       // owned; empty if the file is not a zip
    bool is_zip;
    struct list_output output; // owned
    char scratch[PATH_MAX];    // folder of the database; "": none
    char db[PATH_MAX + 8];
};

static void suggestion_done(struct suggestion *s)
{
    if (*s->scratch) {
        unlink(s->db);
        rmdir(s->scratch);
    }
    list_output_done(&s->output);
    zipindex_done(&s->zip);
    page_ranges_done(&s->chosen);
    evidence_done(&s->evidence);
    s->fd = close_fd(s->fd);
    s->probe = residency_probe_free(s->probe);
}

static bool is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char begin[sizeof(magic)];
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, begin, sizeof(begin)) == (ssize_t)sizeof(begin) &&
           memcmp(begin, magic, sizeof(magic)) == 0;
}

static int make_database(struct suggestion *s, struct mmsql *mmsql, struct err *err)
{
    mmsql->program = s->line->mmsql;
    mmsql->db = s->line->recording;
    bool is_stream = str_eq(s->line->recording, "-");
    if (!is_stream && access(s->line->recording, R_OK) < 0)
        return err_errno(err, -errno, "%s", s->line->recording);
    if (!is_stream && is_database(s->line->recording))
        return 0;
    const char *tmp = getenv("TMPDIR");
    snprintf(s->scratch, sizeof(s->scratch), "%s/pintool.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(s->scratch)) {
        int r = err_errno(err, -errno, "%s", s->scratch);
        *s->scratch = 0;
        return r;
    }
    snprintf(s->db, sizeof(s->db), "%s/db", s->scratch);
    mmsql->db = s->db;
    return mmsql_convert(mmsql, s->line->recording, err);
}

static int look_at_file(struct suggestion *s, struct err *err)
{
    const char *path = s->line->file;
    int r = residency_probe_new(RESIDENCY_AUTO, &s->probe);
    if (r == 0)
        r = residency_open(AT_FDCWD, path, &s->fd, &s->st);
    if (r == -EINVAL)
        return err_set(err, r, "%s: not a regular file", path);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    s->page_size = residency_page_size(s->probe);
    uint64_t pages = residency_pages(s->st.st_size, s->page_size);
    r = evidence_new(pages < EVIDENCE_PAGES_MAX ? pages : EVIDENCE_PAGES_MAX, &s->evidence);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    r = zip_source_index(s->probe, s->fd, (uint64_t)s->st.st_size, path, &s->zip, NULL);
    s->is_zip = r == 0;
    return r == -EBADMSG ? 0 : r < 0 ? err_errno(err, r, "%s", path) : 0;
}

static int gather(struct suggestion *s, struct err *err)
{
    struct mmsql mmsql;
    int r = make_database(s, &mmsql, err);
    if (r < 0)
        return r;
    CLEANUP(freep) char *real = realpath(s->line->file, NULL);
    const char *name = s->line->recorded_as ? s->line->recorded_as : real ? real : s->line->file;
    struct gather_subject subject = {name, s->st.st_dev, s->st.st_ino, s->page_size};
    return gather_evidence(&mmsql, &subject, &s->evidence, &s->sources, err);
}

static struct explanation explanation_of(const struct suggestion *s)
{
    return (struct explanation){
        .path = s->line->file,
        .pinlist_path = s->line->output,
        .size_bytes = (uint64_t)s->st.st_size,
        .page_size = s->page_size,
        .evidence = &s->evidence,
        .sources = &s->sources,
        .chosen = &s->chosen,
        .zip = &s->zip,
    };
}

static int chosen_bytes(const struct suggestion *s, const struct explanation *explanation,
                        struct page_ranges *ret, struct err *err)
{
    vec_foreach(&s->chosen, range) {
        int r = page_ranges_append(ret, range->start * s->page_size,
                                   explanation_page_end(explanation, range->end));
        if (r < 0)
            return err_errno(err, r, "%s", s->line->file);
    }
    return 0;
}

static int write_list(const struct suggestion *s, const struct page_ranges *bytes, struct err *err)
{
    CLEANUP(pinlist_done) struct pinlist list = {0};
    int r = pinlist_from_ranges(bytes, s->page_size, s->line->quota_bytes, &list, err);
    struct list_made_of made_of = {
        .path = s->line->file,
        .zip = s->is_zip ? &s->zip : NULL,
        .size_bytes = (uint64_t)s->st.st_size,
        .why_empty = "no page of the file is worth a pin",
    };
    return r < 0 ? err_prefix(err, r, "%s", s->line->output)
                 : list_output_write(&s->output, &list, &made_of, err);
}

static int write_pinconfig(const struct suggestion *s, const struct page_ranges *bytes,
                           struct err *err)
{
    CLEANUP(coverages_done) struct coverages entries = {0};
    const char *path = s->line->emit_pinconfig;
    if (!s->is_zip)
        return err_set(err, -EINVAL, "%s: not a zip: --emit-pinconfig writes ranges of entries",
                       s->line->file);
    vec_foreach(&s->zip.entries, entry) {
        struct part part = {
            .name = entry->name, .offset = entry->offset, .size_bytes = entry->size_bytes};
        if (coverages_add(&entries, &part, bytes) < 0)
            return err_errno(err, -ENOMEM, "%s", path);
    }
    return emit_pinconfig_write(&s->output, path, &s->zip, &entries, s->line->file, err);
}

static int write_files(const struct suggestion *s, const struct explanation *explanation,
                       struct err *err)
{
    CLEANUP(page_ranges_done) struct page_ranges bytes = {0};
    int r = chosen_bytes(s, explanation, &bytes, err);
    if (r == 0 && s->line->output)
        r = write_list(s, &bytes, err);
    if (r == 0 && s->line->emit_pinconfig)
        r = write_pinconfig(s, &bytes, err);
    return r;
}

static int suggest(struct suggestion *s, struct err *err)
{
    s->output.path = s->line->output;
    s->output.allow_empty = s->line->allow_empty;
    int r = list_output_open(&s->output, path_is_stream(s->line->emit_pinconfig), err);
    if (r == 0)
        r = look_at_file(s, err);
    if (r == 0)
        r = gather(s, err);
    if (r < 0)
        return r;
    r = choice_make(&s->evidence, s->line->quota_bytes / s->page_size, &s->chosen);
    if (r < 0)
        return err_errno(err, r, "%s", s->line->file);
    CLEANUP(explanation_done) struct explanation explanation = explanation_of(s);
    r = explanation_prepare(&explanation, err); // before something is written
    if (r == 0)
        r = write_files(s, &explanation, err);
    if (r < 0)
        return r;
    if (s->line->json)
        explanation_print_json(&explanation);
    else
        explanation_print(&explanation, s->line->explain);
    return 0;
}

static int run(void *userdata, struct err *err)
{
    struct suggestion suggestion = {.line = userdata, .fd = -1, .output.stream_fd = -1};
    int r = suggest(&suggestion, err);
    suggestion_done(&suggestion);
    return r < 0 ? r : pintool_close_stdout();
}

static const struct cli_command command = {
    .program = PINTOOL,
    .verb = "suggest",
    .is_mode = true,
    .usage = "usage: pintool suggest TRACE-OR-DB --file FILE --quota BYTES -o PINLIST\n"
             "                       [--explain | --json]\n\n"
             "Chooses the pages that are worth a pin: a recording shows that the kernel evicts\n"
             "them and reads them back. '-' is standard input for the trace, and standard\n"
             "output for -o.\n\n",
    .more = "\nExample:\n"
            "  pintool suggest trace.pftrace --file APP.apk --quota 40MB -o pinlist.meta\n",
    .options = options,
    .operand = take_text,
    .check = check,
    .run = run,
};

int pintool_suggest(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct command_line){0});
}
