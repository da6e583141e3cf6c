// SPDX-License-Identifier: Apache-2.0
//
// A trace is converted immediately. Other files refer to processes and frames of traces, so they
// wait (conversion_rest.h).
#include "converter/cli/conversion_inputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/conversion_traces.h"
#include "converter/cli/say.h"
#include "converter/input/archive.h"
#include "converter/input/kinds.h"
#include "converter/translate/translate.h"

// Returns true, after a message, if the budget has no room for a further file.
static bool is_used_up(struct run *run, const char *name)
{
    char text[96];
    enum budget_limit limit = budget_check(&run->budget, BUDGET_WALK);
    if (!limit && !budget_fits(&run->budget, run->budget.output_max / 8))
        limit = BUDGET_OUTPUT;
    if (!limit)
        return false;
    say("%s: left out: %s", name, budget_text(&run->budget, limit, text, sizeof(text)));
    run_is_cut(run);
    return true;
}

static struct input_needs needs_of(struct run *run)
{
    return (struct input_needs){.spill_folder = run->folder,
                                .budget = &run->budget,
                                .goes_on = run_goes_on,
                                .userdata = run};
}

// Sets the error text of a file that mmsql does not read; the text names the kind of the file.
// Returns -EBADMSG.
static int kind_refuse(struct run *run, const struct content *content, const struct kind *kind)
{
    const char *damage = input_damage(content->input), *name = content->name;
    if (damage) {
        err_set(run->err, -EBADMSG, "%s: %s", name, damage);
        return err_hint(run->err, -EBADMSG, "what could be read is %s", kind->name);
    }
    err_set(run->err, -EBADMSG, "%s: not a Perfetto trace, but %s", name, kind->name);
    return kind->advice ? err_hint(run->err, -EBADMSG, "%s", kind->advice) : -EBADMSG;
}

// Recognises the content, unless an option gives the format. *ret_kind: the kind of a trace; NULL:
// the content has a file format, or is empty. Returns 0, or -EBADMSG with text for a foreign file.
static int content_recognise(struct run *run, struct content *content, const struct kind **ret_kind)
{
    const uint8_t *bytes = input_bytes(content->input);
    size_t size = input_size(content->input);
    const struct kind *kind = kind_recognise(bytes, size);
    *ret_kind = NULL;
    if (content->format || !size)
        return 0;
    if (!kind)
        content->format = file_format_recognise(content->name, bytes, size);
    if (content->format)
        return 0;
    bool is_read = kind && (kind->role == ROLE_TRACE || translator_of(kind->id));
    if (!is_read)
        return kind_refuse(run, content, kind ? kind : kind_of_rest(bytes, size));
    *ret_kind = kind;
    return 0;
}

// Converts a trace. Files of other formats become packets first.
static int trace_take(struct run *run, struct content *content, const struct kind *kind,
                      struct source *source)
{
    const struct translator *translator = kind ? translator_of(kind->id) : NULL;
    const struct input_needs needs = needs_of(run);
    int r = translator ? translate(content->input, translator, &needs, run->err) : 0;
    if (r == 0)
        r = run_convert_trace(run, content, source);
    return r == -EDQUOT && run->has_base ? run_leave_out(run) : r;
}

// Takes ownership of the content. A trace is converted now; other files wait for the traces.
static int content_take(struct run *run, struct content content)
{
    const struct kind *kind;
    int r = content_recognise(run, &content, &kind);
    struct source source = source_of(content.name, content.input, content.format, content.argument);
    if (r < 0 || (run->n_bytes && is_used_up(run, content.name)) ||
        run_skips(run, &source, content.format)) {
        content_done(&content);
        return r;
    }
    if (content.format) {
        r = run_taken(run, &source);
        if (r == 0)
            r = content_vec_push(&run->waiting, content);
        if (r == 0)
            return 0;
    } else {
        r = trace_take(run, &content, kind, &source);
    }
    content_done(&content);
    return r;
}

// Returns true if the name of a compressed file suggests that its content is input.
static bool compressed_name_fits(const char *name)
{
    static const char *const words[] = {"trace", ".pb",   ".tar",   ".tgz",
                                        ".json", "perf-", "pinlist"};
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

// Selects the entries of an archive that are certainly meant as input. If a content is ambiguous,
// the name decides.
static bool archive_wants(const char *name, const uint8_t *head, size_t size)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const struct kind *kind = kind_recognise(head, size);
    if (kind && kind->role == ROLE_COMPRESSED)
        return compressed_name_fits(last);
    if (kind)
        return kind->role != ROLE_FOREIGN && !kind->is_weak;
    const struct file_format *format = file_format_recognise(name, head, size);
    if (!format || format->of_moment || str_eq(format->option, "alloc-log"))
        return format != NULL;
    return str_starts_with(last, "perf-") || str_starts_with(last, "pin");
}

static void left_out_tell(struct run *run, const struct archive_left_out *left_out)
{
    for (size_t i = 0; i < LEFT_OUT_TEXTS && left_out->texts[i]; i++)
        say("%s; left out", left_out->texts[i]);
    if (left_out->n > LEFT_OUT_TEXTS)
        say("and %zu further files in it; left out", left_out->n - LEFT_OUT_TEXTS);
    run->result.is_partial |= left_out->damaged;
    run->result.is_cut |= left_out->is_cut;
}

// An archive that waits to be read
struct nested {
    char *name;          // owned
    struct input *input; // owned
};
VEC_DEFINE(nested_vec, struct nested);

static void nested_free(struct nested_vec *all)
{
    vec_foreach(all, nested) {
        free(nested->name);
        input_free(nested->input);
    }
    nested_vec_done(all);
}

// Leaves out a file with the error in run->err, and clears the error.
static void damaged_leave_out(struct run *run)
{
    say(*run->err->hint ? "%s (%s); left out" : "%s; left out", run->err->text, run->err->hint);
    *run->err = (struct err){0};
    run->result.is_partial = true;
}

// Takes an entry of an archive, and counts it. An archive in the archive waits in `inner`.
static int entry_take(struct run *run, const char *archive, struct archive_file *entry,
                      const char *argument, struct nested_vec *inner, size_t *n_taken)
{
    struct content content = {.input = STEAL(entry->input), .argument = argument};
    int r = 0;
    if (asprintf(&content.name, "%s!%s", archive, entry->name) < 0) {
        content.name = NULL;
        r = err_errno(run->err, -ENOMEM, "%s", archive);
    }
    if (r == 0)
        r = input_set_name(content.input, content.name);
    if (r == 0 && !archive_recognise(content.input)) {
        r = content_take(run, content);
        *n_taken += r == 0;
        return r;
    }
    if (r == 0)
        r = nested_vec_push(inner, (struct nested){content.name, content.input});
    if (r < 0)
        content_done(&content);
    return r;
}

// Reads one archive. `inflation` belongs to the outermost archive. *n_taken: counts the entries
// that were taken.
static int archive_read_one(struct run *run, struct nested *archive, const char *argument,
                            struct inflation *inflation, struct nested_vec *inner, size_t *n_taken)
{
    CLEANUP(archive_files_free) struct archive_files files = {0};
    CLEANUP(archive_left_out_free) struct archive_left_out left_out = {0};
    struct input_needs needs = needs_of(run);
    needs.inflation = inflation;
    int r = archive_read(archive->input, archive->name, &needs, archive_wants, run->err, &files,
                         &left_out);
    if (r == -EDQUOT && run->n_bytes)
        return run_leave_out(run);
    if (r == 0)
        left_out_tell(run, &left_out);
    if (r == 0 && input_damage(archive->input)) {
        say("%s: %s; converted what could be read", archive->name, input_damage(archive->input));
        run->result.is_partial = true;
        if (input_stopped(archive->input))
            run_is_cut(run);
    }
    vec_foreach(&files, entry) {
        if (r == 0)
            r = entry_take(run, archive->name, entry, argument, inner, n_taken);
        bool others = *n_taken || inner->n || entry + 1 < files.items + files.n;
        if (r == -EBADMSG && others) {
            damaged_leave_out(run);
            r = 0;
        }
    }
    return r;
}

static int archives_take(struct run *run, struct input *outer, const struct conversion_file *file,
                         const char *name)
{
    struct source source = source_of(name, outer, NULL, NULL);
    source.format = (char *)(uintptr_t)SOURCE_ARCHIVE;
    if (run_skips(run, &source, NULL))
        return 0;
    CLEANUP(nested_free) struct nested_vec inner = {0};
    struct inflation inflation = inflation_of(outer);
    struct nested archive = {(char *)(uintptr_t)name, outer};
    size_t n_taken = 0;
    int r = archive_read_one(run, &archive, file->argument, &inflation, &inner, &n_taken);
    for (size_t i = 0; r == 0 && i < inner.n; i++) {
        archive = inner.items[i];
        r = archive_read_one(run, &archive, file->argument, &inflation, &inner, &n_taken);
        if ((r == -EBADMSG || r == -ENOENT || r == -EFBIG) && (n_taken || i + 1 < inner.n)) {
            damaged_leave_out(run);
            r = 0;
        }
    }
    return r < 0 ? r : run_taken(run, &source);
}

int run_take_file(struct run *run, const struct conversion_file *file)
{
    CLEANUP(input_freep) struct input *input = NULL;
    const char *name = str_eq(file->path, "-") ? STDIN_NAME : file->path;
    const struct input_needs needs = needs_of(run);
    budget_begin(&run->budget);
    int r = input_open(file->path, &needs, run->err, &input);
    if (r == -EDQUOT && run->n_bytes)
        return run_leave_out(run);
    if (r < 0)
        return r;
    if (!file->format && archive_recognise(input))
        return archives_take(run, input, file, name);
    struct content content = {
        .name = strdup(name),
        .input = STEAL(input),
        .format = file->format,
        .argument = file->argument,
    };
    if (content.name)
        return content_take(run, content);
    content_done(&content);
    return err_errno(run->err, -ENOMEM, "%s", name);
}
