// SPDX-License-Identifier: Apache-2.0
//
// ftrace text: the output of tracefs, trace-cmd and atrace, and web pages of systrace, which
// contain such text and lists of processes.
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/text.h"
#include "converter/ground/lines.h"
#include "converter/input/ftrace_line.h"
#include "converter/translate/ftrace_lines.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

#define INFLATED_CHUNK 65536u
#define START_LINES    4096 // first lines, which are searched for `TRACE:`
#define DUMP_COLUMN    9    // column of the command line in a long list of processes

enum section {
    SECTION_TRACE,
    SECTION_PAGE,    // a web page, before a script with data
    SECTION_SCRIPT,  // the start of the data
    SECTION_LIST,    // a list of processes
    SECTION_THREADS, // a list of threads
    SECTION_OTHER,   // data that is not read
    SECTION_END,
};

struct ftrace_text {
    struct translation *to;
    enum section section;
    bool is_page;
    struct ftrace_lines lines;
    struct spill inflated; // text that was compressed
};

// Reads a line of `ps`: USER PID PPID ... NAME COMMAND, or USER PID TID COMMAND.
static void list_line(struct ftrace_text *text, struct span line)
{
    bool is_list = text->section == SECTION_LIST;
    struct span words[DUMP_COLUMN];
    size_t n = 0, n_wanted = is_list ? DUMP_COLUMN : 3;
    while (n < n_wanted && line.at < line.end)
        words[n++] = word_take(&line);
    uint64_t first, second;
    if (n < n_wanted || line.at == line.end)
        return;
    if (text_is(words[0], "USER") && text_is(words[1], "PID")) {
        text->section = text_is(words[2], "TID") ? SECTION_THREADS : SECTION_LIST;
        return;
    }
    if (!text_decimal(words[1], &first) || !text_decimal(words[2], &second))
        return;
    struct span name = is_list ? words[8] : line;
    struct wire_writer *w = packets_begin(&text->to->packets, PACKETS_NO_TIME);
    size_t task = wire_begin(w, PB_TracePacket_foreign_task);
    wire_uint(w, PB_ForeignTask_pid, (uint32_t)first);
    wire_uint(w, is_list ? PB_ForeignTask_ppid : PB_ForeignTask_tid, (uint32_t)second);
    wire_text(w, PB_ForeignTask_name, name.at, text_size(name));
    wire_uint(w, PB_ForeignTask_is_listed, 1);
    wire_end(w, task);
    packets_end(&text->to->packets);
}

static int page_line(struct ftrace_text *text, uint64_t number, struct span line)
{
    static const struct text script =
        TEXT("<script class=\"trace-data\" type=\"application/text\">");
    static const struct text script_end = TEXT("</script>");
    struct text start = {line.at, text_size(line)};
    if (text->section != SECTION_PAGE && line_contains(line, script_end)) {
        text->section = text->section == SECTION_TRACE ? SECTION_END : SECTION_PAGE;
        return 0;
    }
    switch (text->section) {
    case SECTION_PAGE:
        if (line_contains(line, script))
            text->section = SECTION_SCRIPT;
        break;
    case SECTION_SCRIPT:
        if (text_starts_with(start, TEXT("#")) && line_contains(line, TEXT("TASK-PID")))
            text->section = SECTION_TRACE;
        else if (text_starts_with(start, TEXT("PROCESS DUMP")))
            text->section = SECTION_LIST;
        else if (text_starts_with(start, TEXT("CGROUP DUMP")))
            text->section = SECTION_OTHER;
        break;
    case SECTION_LIST:
    case SECTION_THREADS:
        list_line(text, line);
        break;
    case SECTION_TRACE:
        return ftrace_lines_take(&text->lines, number, line);
    case SECTION_OTHER:
    case SECTION_END:
        break;
    }
    return 0;
}

// Skips the text that atrace prints before the trace. Returns true if there was such text.
static bool start_skip(struct lines *lines)
{
    struct lines at = *lines;
    struct span line;
    for (size_t i = 0; i < START_LINES && lines_next(&at, &line); i++)
        if (text_is(line, "TRACE:")) {
            *lines = at;
            return true;
        }
    return false;
}

// Inflates the output of `atrace -z`. Keeps the text before damage.
static int text_inflate(struct ftrace_text *text, struct lines *lines)
{
    struct translation *to = text->to;
    CLEANUP(freep) uint8_t *chunk = malloc(INFLATED_CHUNK);
    struct inflation *inflation = to->needs ? to->needs->inflation : NULL;
    uint64_t max = input_inflated_max(input_size(to->input));
    const uint8_t *bytes = NULL;
    z_stream z = {0};
    if (!chunk || inflateInit(&z) != Z_OK)
        return err_errno(to->err, -ENOMEM, "zlib");
    int code = Z_OK, r = 0;
    while (r == 0 && code == Z_OK && text->inflated.size <= max) {
        size_t left = (size_t)(lines->end - lines->at);
        z.next_in = (Bytef *)(uintptr_t)lines->at;
        z.avail_in = left < INFLATED_CHUNK ? (uInt)left : INFLATED_CHUNK;
        z.next_out = chunk;
        z.avail_out = INFLATED_CHUNK;
        code = inflate(&z, Z_NO_FLUSH);
        size_t n_read = (size_t)((const char *)z.next_in - lines->at);
        size_t n = INFLATED_CHUNK - z.avail_out;
        lines->at += n_read;
        if (inflation)
            r = inflation_take(inflation, n, to->err);
        if (r == 0)
            r = spill_append(&text->inflated, chunk, n, to->err);
        if (r == 0)
            r = translation_step(to, n_read);
    }
    inflateEnd(&z);
    if (code != Z_STREAM_END)
        translation_damage(to, "the compressed text ends or breaks after %zu bytes of text",
                           text->inflated.size);
    if (r == 0)
        r = spill_finish(&text->inflated, &bytes, to->err);
    *lines = lines_over(bytes, bytes ? text->inflated.size : 0);
    return r;
}

// Returns true if the text is compressed with zlib.
static bool is_compressed(const struct lines *lines)
{
    static const uint8_t second_bytes[] = {0x01, 0x5e, 0x9c, 0xda};
    return lines->end - lines->at > 2 && lines->at[0] == 0x78 &&
           memchr(second_bytes, (uint8_t)lines->at[1], sizeof(second_bytes));
}

// Returns whether the text is a web page. The idle thread is called <idle>, so a bracket alone is
// not enough.
static bool is_page(struct lines lines)
{
    struct span line;
    struct ftrace_line event;
    return lines_next_full(&lines, &line) && *line.at == '<' && !ftrace_line_read(line, &event);
}

static int ftrace_text_run(struct translation *to)
{
    struct ftrace_text text = {.to = to};
    struct lines lines = lines_over(input_bytes(to->input), input_size(to->input));
    struct span line;
    ftrace_lines_begin(&text.lines, to);
    int r = spill_init(&text.inflated, to->needs ? to->needs->spill_folder : NULL, to->err);
    text.inflated.budget = to->needs ? to->needs->budget : NULL;
    if (r == 0 && start_skip(&lines) && is_compressed(&lines))
        r = text_inflate(&text, &lines);
    text.is_page = is_page(lines);
    text.section = text.is_page ? SECTION_PAGE : SECTION_TRACE;
    for (const char *before = lines.at; r == 0 && lines_next(&lines, &line); before = lines.at) {
        r = text.is_page ? page_line(&text, lines.number, line)
                         : ftrace_lines_take(&text.lines, lines.number, line);
        if (r == 0)
            r = translation_step(to, (size_t)(lines.at - before));
    }
    ftrace_lines_end(&text.lines, "");
    spill_done(&text.inflated);
    return r;
}

const struct translator translator_ftrace_text = {.type = "systrace", .run = ftrace_text_run};
