// SPDX-License-Identifier: Apache-2.0
//
// A trace is converted at once. Other files refer to processes and frames of traces, so they wait
// (conversion_rest.h).
#include "converter/cli/conversion_inputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/conversion_traces.h"
#include "converter/cli/say.h"
#include "converter/input/archive.h"
#include "converter/input/recognise.h"

// True, after a message, if the budget has no room for a further file
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

// Takes ownership of the content. A trace is converted now; other files wait for the traces.
static int content_take(struct run *run, struct content content)
{
    const uint8_t *bytes = input_bytes(content.input);
    size_t size = input_size(content.input);
    if (!content.format && size && !trace_recognise(bytes, size))
        content.format = file_format_recognise(content.name, bytes, size);
    struct source source = source_of(content.name, content.input, content.format, content.argument);
    int r = 0;
    if ((run->n_bytes && is_used_up(run, content.name)) ||
        run_skips(run, &source, content.format)) {
        content_done(&content);
        return 0;
    }
    if (content.format) {
        r = run_taken(run, &source);
        if (r == 0)
            r = content_vec_push(&run->waiting, content);
        if (r == 0)
            return 0;
    } else {
        r = run_convert_trace(run, &content, &source);
        if (r == -EDQUOT && run->has_base)
            r = run_leave_out(run);
    }
    content_done(&content);
    return r;
}

// Selects the entries of an archive that are certainly meant as input. If a content is ambiguous,
// the name decides.
static bool archive_wants(const char *name, const uint8_t *head, size_t size)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    if (trace_recognise(head, size))
        return true;
    bool is_gzip = size > 2 && head[0] == 0x1f && head[1] == 0x8b;
    if (is_gzip && (strstr(last, "trace") || strstr(last, ".pb")))
        return true;
    const struct file_format *format = file_format_recognise(name, head, size);
    if (!format || format->of_moment || str_eq(format->option, "alloc-log"))
        return format != NULL;
    return str_starts_with(last, "perf-") || str_starts_with(last, "pin");
}

static struct input_needs needs_of(struct run *run)
{
    return (struct input_needs){.spill_folder = run->folder,
                                .budget = &run->budget,
                                .goes_on = run_goes_on,
                                .userdata = run};
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

static int archive_take(struct run *run, struct input *archive, const struct conversion_file *file,
                        const char *name)
{
    CLEANUP(archive_files_free) struct archive_files files = {0};
    struct source source = source_of(name, archive, NULL, NULL);
    source.format = (char *)(uintptr_t)SOURCE_ARCHIVE;
    if (run_skips(run, &source, NULL))
        return 0;
    CLEANUP(archive_left_out_free) struct archive_left_out left_out = {0};
    const struct input_needs needs = needs_of(run);
    int r = archive_read(archive, name, &needs, archive_wants, run->err, &files, &left_out);
    if (r == -EDQUOT && run->n_bytes)
        return run_leave_out(run);
    if (r == 0)
        left_out_tell(run, &left_out);
    size_t n_taken = 0;
    vec_foreach(&files, entry) {
        struct content content = {.input = STEAL(entry->input), .argument = file->argument};
        if (r == 0 && asprintf(&content.name, "%s!%s", name, entry->name) < 0) {
            content.name = NULL;
            r = err_errno(run->err, -ENOMEM, "%s", name);
        }
        if (r == 0)
            r = input_set_name(content.input, content.name);
        if (r == 0)
            r = content_take(run, content);
        else
            content_done(&content);
        n_taken += r == 0;
        if (r == -EBADMSG &&
            (n_taken || entry + 1 < files.items + files.n)) { // other entries may be good
            say(*run->err->hint ? "%s (%s); left out" : "%s; left out", run->err->text,
                run->err->hint);
            run->result.is_partial = true;
            r = 0;
        }
    }
    return r < 0 ? r : run_taken(run, &source);
}

int run_take_file(struct run *run, const struct conversion_file *file)
{
    CLEANUP(input_freep) struct input *input = NULL;
    const char *name = str_eq(file->path, "-") ? "standard input" : file->path;
    const struct input_needs needs = needs_of(run);
    budget_begin(&run->budget);
    int r = input_open(file->path, &needs, run->err, &input);
    if (r == -EDQUOT && run->n_bytes)
        return run_leave_out(run);
    if (r < 0)
        return r;
    if (!file->format && archive_recognise(input))
        return archive_take(run, input, file, name);
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
