// SPDX-License-Identifier: Apache-2.0
//
// ftrace text: what tracefs, trace-cmd and atrace print, and web pages of systrace, which contain
// such text and lists of processes.
//
// Lines of one processor that follow each other share a bundle. Times have microseconds only, so
// bundles say that the order of lines counts where times are equal. What a line says about its
// thread is a packet of its own in front of the bundle, if it is new.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/text.h"
#include "converter/ground/lines.h"
#include "converter/input/ftrace_line.h"
#include "converter/translate/ftrace_args.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

#define BUNDLE_SIZE            ((size_t)64 << 10)
#define INFLATED_CHUNK         65536u
#define CPU_MAX                4095
#define START_LINES            4096 // among which `TRACE:` may stand
#define DUMP_COLUMN            9    // of the command line in a long list of processes
#define SEQUENCE_STATE_CLEARED 1

enum section {
    SECTION_TRACE,
    SECTION_PAGE,    // of a web page: in front of a script with data
    SECTION_SCRIPT,  // at the start of the data
    SECTION_LIST,    // of processes
    SECTION_THREADS, // a list of threads
    SECTION_OTHER,   // data that is not read
    SECTION_END,
};

struct ftrace_text {
    struct translation *to;
    enum section section;
    bool is_page;
    struct ftrace_symbols symbols;
    size_t n_symbols_written;
    struct map64 tasks; // tid -> hash of what is known of the thread
    struct wire_writer *w;
    size_t bundle; // mark of the open bundle
    bool is_open;
    uint32_t cpu;
    uint64_t n_bad, first_bad;
    struct spill inflated; // text that was compressed
};

static void symbols_write(struct ftrace_text *text)
{
    if (text->n_symbols_written == text->symbols.names.n)
        return;
    size_t interned = wire_begin(text->w, PB_TracePacket_interned_data);
    for (; text->n_symbols_written < text->symbols.names.n; text->n_symbols_written++) {
        const struct strset_entry *name = &text->symbols.names.entries[text->n_symbols_written];
        size_t entry = wire_begin(text->w, PB_InternedData_kernel_symbols);
        wire_uint(text->w, PB_InternedString_iid, text->n_symbols_written + 1);
        wire_bytes(text->w, PB_InternedString_str, name->text, name->size);
        wire_end(text->w, entry);
    }
    wire_end(text->w, interned);
}

static void bundle_close(struct ftrace_text *text)
{
    if (!text->is_open)
        return;
    wire_end(text->w, text->bundle);
    symbols_write(text);
    packets_end(&text->to->packets);
    text->is_open = false;
}

static void bundle_open(struct ftrace_text *text, uint32_t cpu, bool lost)
{
    text->w = packets_begin(&text->to->packets, PACKETS_NO_TIME);
    text->bundle = wire_begin(text->w, PB_TracePacket_ftrace_events);
    wire_uint(text->w, PB_FtraceEventBundle_cpu, cpu);
    wire_uint(text->w, PB_FtraceEventBundle_ordered, 1);
    if (lost)
        wire_uint(text->w, PB_FtraceEventBundle_lost_events, 1);
    text->cpu = cpu;
    text->is_open = true;
}

// Writes what the line says about its thread, unless that is known.
static int task_note(struct ftrace_text *text, const struct ftrace_line *line)
{
    bool has_name = line->task.at < line->task.end && !text_is(line->task, "<...>");
    uint64_t hash = has_name ? hash_bytes(line->task.at, text_size(line->task)) : 0;
    hash = hash_u64(hash ^ (line->has_tgid ? (uint64_t)line->tgid << 1 | 1 : 0));
    bool is_new;
    uint64_t *known = map64_get_or_add(&text->tasks, line->tid, hash, &is_new);
    if (!known)
        return err_errno(text->to->err, -ENOMEM, "threads");
    if (!is_new && *known == hash)
        return 0;
    *known = hash;
    bundle_close(text);
    struct wire_writer *w = packets_begin(&text->to->packets, line->ts);
    size_t task = wire_begin(w, PB_TracePacket_foreign_task);
    wire_uint(w, PB_ForeignTask_tid, line->tid);
    if (line->has_tgid)
        wire_uint(w, PB_ForeignTask_pid, line->tgid);
    if (has_name)
        wire_text(w, PB_ForeignTask_name, line->task.at, text_size(line->task));
    wire_uint(w, PB_ForeignTask_from_ftrace, 1);
    wire_end(w, task);
    packets_end(&text->to->packets);
    return 0;
}

// The tid may mean another thread after an event that ends or begins one.
static void task_forget(struct ftrace_text *text, const struct ftrace_line *line)
{
    static const char *const events[] = {"sched_process_exit", "sched_process_free",
                                         "task_newtask"};
    struct span rest = line->args, key, value;
    int64_t pid;
    bool matters = false;
    for (size_t i = 0; i < ELEMENTS(events); i++)
        matters |= text_is(line->event, events[i]);
    while (matters && ftrace_pair_next(&rest, &key, &value, NULL))
        if (text_is(key, "pid") && ftrace_number_read(value, false, &pid))
            map64_remove(&text->tasks, (uint32_t)pid);
}

static void print_write(struct wire_writer *w, struct span args)
{
    static const struct text prefix = TEXT("tracing_mark_write:");
    if (text_starts_with((struct text){args.at, text_size(args)}, prefix)) { // of trace-cmd
        args = text_trim_start((struct span){args.at + prefix.size, args.end});
    }
    size_t print = wire_begin(w, PB_FtraceEvent_print);
    wire_text(w, PB_PrintFtraceEvent_buf, args.at, text_size(args));
    wire_end(w, print);
}

static int event_write(struct ftrace_text *text, const struct ftrace_line *line)
{
    int r = task_note(text, line);
    if (text->is_open &&
        (text->cpu != line->cpu || wire_size(text->w) - text->bundle > BUNDLE_SIZE))
        bundle_close(text);
    if (!text->is_open)
        bundle_open(text, line->cpu, false);
    struct wire_writer *w = text->w;
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)line->ts);
    wire_uint(w, PB_FtraceEvent_pid, line->tid);
    if (text_is(line->event, "tracing_mark_write") || text_is(line->event, "0") ||
        text_is(line->event, "print"))
        print_write(w, line->args);
    else
        ftrace_args_write(w, line->event, line->args, &text->symbols);
    wire_end(w, event);
    task_forget(text, line);
    return r;
}

// `CPU:N [LOST M EVENTS]`
static bool loss_read(struct ftrace_text *text, struct span line)
{
    struct span word = word_take(&line);
    uint64_t cpu;
    if (!text_starts_with((struct text){word.at, text_size(word)}, TEXT("CPU:")) ||
        !text_is(word_take(&line), "[LOST"))
        return false;
    if (text_decimal((struct span){word.at + 4, word.end}, &cpu) && cpu <= CPU_MAX) {
        bundle_close(text);
        bundle_open(text, (uint32_t)cpu, true);
    }
    return true;
}

static bool contains(struct span line, struct text needle)
{
    return memmem(line.at, text_size(line), needle.at, needle.size) != NULL;
}

// Lines that these programs print between events, and that say nothing about them
static bool is_remark(struct span line)
{
    static const struct text starts[] = {
        TEXT("#"),  TEXT("=>"),       TEXT("cpus="),  TEXT("CPU "),
        TEXT("##"), TEXT("version "), TEXT("TRACE:"), TEXT("capturing trace"),
    };
    if (line.at == line.end)
        return true;
    for (size_t i = 0; i < ELEMENTS(starts); i++)
        if (text_starts_with((struct text){line.at, text_size(line)}, starts[i]))
            return true;
    return contains(line, TEXT("<stack trace>"));
}

static int trace_line(struct ftrace_text *text, uint64_t number, struct span line)
{
    struct ftrace_line event;
    if (text_size(line) <= LINE_MAX_BYTES && ftrace_line_read(line, &event) && event.cpu <= CPU_MAX)
        return event_write(text, &event);
    if (is_remark(line) || loss_read(text, line))
        return 0;
    if (text->n_bad++ == 0)
        text->first_bad = number;
    return 0;
}

// A line of `ps`: USER PID PPID ... NAME COMMAND, or USER PID TID COMMAND.
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
    if (text->section != SECTION_PAGE && contains(line, script_end)) {
        text->section = text->section == SECTION_TRACE ? SECTION_END : SECTION_PAGE;
        return 0;
    }
    switch (text->section) {
    case SECTION_PAGE:
        if (contains(line, script))
            text->section = SECTION_SCRIPT;
        break;
    case SECTION_SCRIPT:
        if (text_starts_with(start, TEXT("#")) && contains(line, TEXT("TASK-PID")))
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
        return trace_line(text, number, line);
    case SECTION_OTHER:
    case SECTION_END:
        break;
    }
    return 0;
}

// Skips what atrace prints in front of the trace. Returns true if there was such text.
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

// Inflates what `atrace -z` writes. The text before damage is kept.
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

// True if the text is compressed with zlib.
static bool is_compressed(const struct lines *lines)
{
    static const uint8_t second_bytes[] = {0x01, 0x5e, 0x9c, 0xda};
    return lines->end - lines->at > 2 && lines->at[0] == 0x78 &&
           memchr(second_bytes, (uint8_t)lines->at[1], sizeof(second_bytes));
}

// The idle thread is called <idle>, so a bracket alone is no web page.
static bool is_page(struct lines lines)
{
    struct span line;
    struct ftrace_line event;
    return lines_next_full(&lines, &line) && *line.at == '<' && !ftrace_line_read(line, &event);
}

static void problems_write(struct ftrace_text *text)
{
    struct wire_writer *w = packets_begin(&text->to->packets, PACKETS_NO_TIME);
    size_t problems = wire_begin(w, PB_TracePacket_foreign_problems);
    if (text->n_bad)
        wire_uint(w, PB_ForeignProblems_ftrace_lines, text->n_bad);
    wire_end(w, problems);
    packets_end(&text->to->packets);
    if (text->n_bad)
        translation_damage(
            text->to, "line %" PRIu64 " is no ftrace event; %" PRIu64 " such lines are left out",
            text->first_bad, text->n_bad);
}

static int ftrace_text_run(struct translation *to)
{
    struct ftrace_text text = {.to = to};
    struct lines lines = lines_over(input_bytes(to->input), input_size(to->input));
    struct span line;
    int r = 0;
    wire_uint(packets_begin(&to->packets, PACKETS_NO_TIME), PB_TracePacket_sequence_flags,
              SEQUENCE_STATE_CLEARED);
    packets_end(&to->packets);
    r = spill_init(&text.inflated, to->needs ? to->needs->spill_folder : NULL, to->err);
    text.inflated.budget = to->needs ? to->needs->budget : NULL;
    if (r == 0 && start_skip(&lines) && is_compressed(&lines))
        r = text_inflate(&text, &lines);
    text.is_page = is_page(lines);
    text.section = text.is_page ? SECTION_PAGE : SECTION_TRACE;
    for (const char *before = lines.at; r == 0 && lines_next(&lines, &line); before = lines.at) {
        r = text.is_page ? page_line(&text, lines.number, line)
                         : trace_line(&text, lines.number, line);
        if (r == 0)
            r = translation_step(to, (size_t)(lines.at - before));
    }
    bundle_close(&text);
    problems_write(&text);
    map64_done(&text.tasks);
    strset_done(&text.symbols.names);
    spill_done(&text.inflated);
    return r;
}

const struct translator translator_ftrace_text = {.type = "systrace", .run = ftrace_text_run};
