// SPDX-License-Identifier: Apache-2.0
//
// The text of `perf script`: each sample becomes a packet with its call chain. A sample without a
// call chain is left out, as in Perfetto.
#include <errno.h>
#include <inttypes.h>

#include "common/str.h"
#include "common/text.h"
#include "converter/ground/lines.h"
#include "converter/input/perf_line.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

struct perf_text {
    struct translation *to;
    struct wire_writer *w; // of the open sample
    size_t sample;         // mark
    bool is_open;
    size_t n_frames;
    uint64_t n_empty, n_bad, first_bad;
    struct strbuf comm;
};

static void bad(struct perf_text *text, uint64_t line)
{
    if (text->n_bad++ == 0)
        text->first_bad = line;
}

static void sample_close(struct perf_text *text, uint64_t line)
{
    if (!text->is_open)
        return;
    text->is_open = false;
    wire_end(text->w, text->sample);
    if (!text->n_frames) {
        text->n_empty++;
        packets_drop(&text->to->packets);
    } else if (!packets_end(&text->to->packets)) {
        bad(text, line);
    }
}

static void frame_write(struct perf_text *text, struct span function, struct span file)
{
    size_t frame = wire_begin(text->w, PB_ForeignSample_frames);
    wire_text(text->w, PB_ForeignSample_Frame_function, function.at, text_size(function));
    wire_text(text->w, PB_ForeignSample_Frame_mapping, file.at, text_size(file));
    wire_end(text->w, frame);
    text->n_frames++;
}

// Writes a comm with one blank between words: perf pads the comm, and simpleperf has tabs.
static void comm_write(struct perf_text *text, struct span comm)
{
    strbuf_clear(&text->comm);
    while (comm.at < comm.end) {
        struct span word = word_take(&comm);
        if (text->comm.size)
            strbuf_add_char(&text->comm, ' ');
        strbuf_add(&text->comm, word.at, text_size(word));
    }
    if (text->comm.size)
        wire_text(text->w, PB_ForeignSample_comm, text->comm.text, text->comm.size);
}

static void sample_open(struct perf_text *text, const struct perf_line *line)
{
    static const char source[] = "perf_text";
    struct span function, file;
    struct wire_writer *w = packets_begin(&text->to->packets, line->ts);
    text->w = w;
    text->sample = wire_begin(w, PB_TracePacket_foreign_sample);
    text->is_open = true;
    text->n_frames = 0;
    wire_string(w, PB_ForeignSample_source, source);
    wire_uint(w, PB_ForeignSample_tid, line->tid);
    if (line->has_pid)
        wire_uint(w, PB_ForeignSample_pid, line->pid);
    comm_write(text, line->comm);
    // Without call chains, the frame is on the same line: `EVENT: ADDRESS FUNCTION (FILE)`.
    const char *at = line->rest.end;
    while (at > line->rest.at && !(at[-1] == ':' && at < line->rest.end && is_blank(*at)))
        at--;
    if (at > line->rest.at && perf_frame_read((struct span){at, line->rest.end}, &function, &file))
        frame_write(text, function, file);
}

static void line_translate(struct perf_text *text, uint64_t number, struct span line)
{
    struct perf_line sample;
    struct span function, file;
    if (line.at == line.end || *line.at == '#') {
        if (line.at == line.end)
            sample_close(text, number);
        return;
    }
    if (text_size(line) > LINE_MAX_BYTES)
        bad(text, number);
    else if (text->is_open && perf_frame_read(line, &function, &file))
        frame_write(text, function, file);
    else if (perf_line_read(line, &sample)) {
        sample_close(text, number);
        sample_open(text, &sample);
    } else
        bad(text, number);
}

static int perf_text_run(struct translation *to)
{
    struct perf_text text = {.to = to};
    struct lines lines = lines_over(input_bytes(to->input), input_size(to->input));
    struct span line;
    int r = 0;
    for (const char *before = lines.at; r == 0 && lines_next(&lines, &line); before = lines.at) {
        line_translate(&text, lines.number, line);
        r = translation_step(to, (size_t)(lines.at - before));
    }
    sample_close(&text, lines.number);
    if (r == 0 && text.comm.failed)
        r = err_errno(to->err, -ENOMEM, "names");
    strbuf_done(&text.comm);
    struct wire_writer *w = packets_begin(&to->packets, PACKETS_NO_TIME);
    size_t problems = wire_begin(w, PB_TracePacket_foreign_problems);
    if (text.n_empty)
        wire_uint(w, PB_ForeignProblems_samples_without_frames, text.n_empty);
    if (text.n_bad)
        wire_uint(w, PB_ForeignProblems_perf_lines, text.n_bad);
    wire_end(w, problems);
    packets_end(&to->packets);
    if (text.n_bad)
        translation_damage(to,
                           "line %" PRIu64 " is neither a sample nor a frame; %" PRIu64
                           " such lines are left out",
                           text.first_bad, text.n_bad);
    return r;
}

const struct translator translator_perf_text = {.type = "perf_text", .run = perf_text_run};
