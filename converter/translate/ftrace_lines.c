// SPDX-License-Identifier: Apache-2.0
//
// Consecutive lines of one processor share a bundle. Times have only microseconds, so a bundle
// states that the order of lines counts if times are equal. A new fact about the thread of a line
// becomes a separate packet before the bundle.
#include "converter/translate/ftrace_lines.h"

#include <errno.h>
#include <inttypes.h>

#include "common/elements.h"
#include "common/text.h"
#include "converter/input/ftrace_line.h"
#include "protos/fields.h"

#define BUNDLE_SIZE            ((size_t)64 << 10)
#define CPU_MAX                4095
#define SEQUENCE_STATE_CLEARED 1

void ftrace_lines_begin(struct ftrace_lines *lines, struct translation *to)
{
    *lines = (struct ftrace_lines){.to = to};
    wire_uint(packets_begin(&to->packets, PACKETS_NO_TIME), PB_TracePacket_sequence_flags,
              SEQUENCE_STATE_CLEARED);
    packets_end(&to->packets);
}

static void symbols_write(struct ftrace_lines *lines)
{
    if (lines->n_symbols_written == lines->symbols.names.n)
        return;
    size_t interned = wire_begin(lines->w, PB_TracePacket_interned_data);
    for (; lines->n_symbols_written < lines->symbols.names.n; lines->n_symbols_written++) {
        const struct strset_entry *name = &lines->symbols.names.entries[lines->n_symbols_written];
        size_t entry = wire_begin(lines->w, PB_InternedData_kernel_symbols);
        wire_uint(lines->w, PB_InternedString_iid, lines->n_symbols_written + 1);
        wire_bytes(lines->w, PB_InternedString_str, name->text, name->size);
        wire_end(lines->w, entry);
    }
    wire_end(lines->w, interned);
}

static void bundle_close(struct ftrace_lines *lines)
{
    if (!lines->is_open)
        return;
    wire_end(lines->w, lines->bundle);
    symbols_write(lines);
    packets_end(&lines->to->packets);
    lines->is_open = false;
}

static void bundle_open(struct ftrace_lines *lines, uint32_t cpu, bool lost)
{
    lines->w = packets_begin(&lines->to->packets, PACKETS_NO_TIME);
    lines->bundle = wire_begin(lines->w, PB_TracePacket_ftrace_events);
    wire_uint(lines->w, PB_FtraceEventBundle_cpu, cpu);
    wire_uint(lines->w, PB_FtraceEventBundle_ordered, 1);
    if (lost)
        wire_uint(lines->w, PB_FtraceEventBundle_lost_events, 1);
    lines->cpu = cpu;
    lines->is_open = true;
}

// Writes the facts about the thread of the line, unless they are known.
static int task_note(struct ftrace_lines *lines, const struct ftrace_line *line)
{
    bool has_name = line->task.at < line->task.end && !text_is(line->task, "<...>");
    uint64_t hash = has_name ? hash_bytes(line->task.at, text_size(line->task)) : 0;
    hash = hash_u64(hash ^ (line->has_tgid ? (uint64_t)line->tgid << 1 | 1 : 0));
    bool is_new;
    uint64_t *known = map64_get_or_add(&lines->tasks, line->tid, hash, &is_new);
    if (!known)
        return err_errno(lines->to->err, -ENOMEM, "threads");
    if (!is_new && *known == hash)
        return 0;
    *known = hash;
    bundle_close(lines);
    struct wire_writer *w = packets_begin(&lines->to->packets, line->ts);
    size_t task = wire_begin(w, PB_TracePacket_foreign_task);
    wire_uint(w, PB_ForeignTask_tid, line->tid);
    if (line->has_tgid)
        wire_uint(w, PB_ForeignTask_pid, line->tgid);
    if (has_name)
        wire_text(w, PB_ForeignTask_name, line->task.at, text_size(line->task));
    wire_uint(w, PB_ForeignTask_from_ftrace, 1);
    wire_end(w, task);
    packets_end(&lines->to->packets);
    return 0;
}

// Forgets a thread that an event ends or begins: afterwards, its tid may mean another thread.
static void task_forget(struct ftrace_lines *lines, const struct ftrace_line *line)
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
            map64_remove(&lines->tasks, (uint32_t)pid);
}

static void print_write(struct wire_writer *w, struct span args)
{
    static const struct text prefix = TEXT("tracing_mark_write:");
    if (text_starts_with((struct text){args.at, text_size(args)}, prefix)) { // from trace-cmd
        args = text_trim_start((struct span){args.at + prefix.size, args.end});
    }
    size_t print = wire_begin(w, PB_FtraceEvent_print);
    wire_text(w, PB_PrintFtraceEvent_buf, args.at, text_size(args));
    wire_end(w, print);
}

static int event_write(struct ftrace_lines *lines, const struct ftrace_line *line)
{
    int r = task_note(lines, line);
    if (lines->is_open &&
        (lines->cpu != line->cpu || wire_size(lines->w) - lines->bundle > BUNDLE_SIZE))
        bundle_close(lines);
    if (!lines->is_open)
        bundle_open(lines, line->cpu, false);
    struct wire_writer *w = lines->w;
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)line->ts);
    wire_uint(w, PB_FtraceEvent_pid, line->tid);
    if (text_is(line->event, "tracing_mark_write") || text_is(line->event, "0") ||
        text_is(line->event, "print"))
        print_write(w, line->args);
    else
        ftrace_args_write(w, line->event, line->args, &lines->symbols);
    wire_end(w, event);
    task_forget(lines, line);
    return r;
}

// Reads the line `CPU:N [LOST M EVENTS]`. Returns false for any other line.
static bool loss_read(struct ftrace_lines *lines, struct span line)
{
    struct span word = word_take(&line);
    uint64_t cpu;
    if (!text_starts_with((struct text){word.at, text_size(word)}, TEXT("CPU:")) ||
        !text_is(word_take(&line), "[LOST"))
        return false;
    if (text_decimal((struct span){word.at + 4, word.end}, &cpu) && cpu <= CPU_MAX) {
        bundle_close(lines);
        bundle_open(lines, (uint32_t)cpu, true);
    }
    return true;
}

// Returns whether the line is a remark, which has no information about events.
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
    return line_contains(line, TEXT("<stack trace>"));
}

int ftrace_lines_take(struct ftrace_lines *lines, uint64_t number, struct span line)
{
    struct ftrace_line event;
    if (text_size(line) <= LINE_MAX_BYTES && ftrace_line_read(line, &event) && event.cpu <= CPU_MAX)
        return event_write(lines, &event);
    if (is_remark(line) || loss_read(lines, line))
        return 0;
    if (lines->n_bad++ == 0)
        lines->first_bad = number;
    return 0;
}

void ftrace_lines_end(struct ftrace_lines *lines, const char *place)
{
    struct translation *to = lines->to;
    bundle_close(lines);
    struct wire_writer *w = packets_begin(&to->packets, PACKETS_NO_TIME);
    size_t problems = wire_begin(w, PB_TracePacket_foreign_problems);
    if (lines->n_bad)
        wire_uint(w, PB_ForeignProblems_ftrace_lines, lines->n_bad);
    wire_end(w, problems);
    packets_end(&to->packets);
    if (lines->n_bad)
        translation_damage(
            to, "line %" PRIu64 "%s is not an ftrace event; %" PRIu64 " such lines are left out",
            lines->first_bad, place, lines->n_bad);
    map64_done(&lines->tasks);
    strset_done(&lines->symbols.names);
}
