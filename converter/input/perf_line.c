// SPDX-License-Identifier: Apache-2.0
//
// A comm can have any character. The line is therefore read from the time backwards: the time is
// the first `NUMBER.NUMBER:` with six digits or more after the dot.
#include "converter/input/perf_line.h"

#include "converter/input/ftrace_line.h"

#define LOOKED_AT    4096
#define FRACTION_MIN 6

// Reads a pid or a tid. The number -1 means a task that had ended.
static bool number_u32(struct span text, uint32_t *ret)
{
    uint64_t value;
    if (text_is(text, "-1")) {
        *ret = UINT32_MAX;
        return true;
    }
    if (!text_decimal(text, &value) || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

// Returns the start of the time that ends at `end`, or NULL if no time ends there.
static const char *time_find(const char *start, const char *end, int64_t *ret)
{
    const char *at = end, *dot;
    while (at > start && is_digit(at[-1]))
        at--;
    if (end - at < FRACTION_MIN || at == start || at[-1] != '.')
        return NULL;
    dot = --at;
    while (at > start && is_digit(at[-1]))
        at--;
    if (at == dot || at == start || !is_blank(at[-1]))
        return NULL;
    struct span number = {at, end};
    return seconds_take(&number, ret) ? at : NULL;
}

static bool task_read(struct span text, struct perf_line *line)
{
    struct span word = last_word_take(&text);
    uint32_t cpu;
    if (text_size(word) > 2 && *word.at == '[' && word.end[-1] == ']') {
        if (!number_u32((struct span){word.at + 1, word.end - 1}, &cpu))
            return false;
        word = last_word_take(&text);
    }
    const char *slash = text_size(word) ? memchr(word.at, '/', text_size(word)) : NULL;
    line->has_pid = slash != NULL;
    if (slash && !number_u32((struct span){word.at, slash}, &line->pid))
        return false;
    if (slash)
        word.at = slash + 1;
    line->comm = text;
    return number_u32(word, &line->tid);
}

bool perf_line_read(struct span text, struct perf_line *ret)
{
    struct perf_line line = {0};
    for (const char *at = text.at;
         at < text.end && (at = memchr(at, ':', (size_t)(text.end - at))) != NULL; at++) {
        const char *start = time_find(text.at, at, &line.ts);
        if (!start || !task_read((struct span){text.at, start}, &line))
            continue;
        line.rest = (struct span){at + 1, text.end};
        *ret = line;
        return true;
    }
    return false;
}

bool perf_frame_read(struct span line, struct span *function, struct span *file)
{
    uint64_t address;
    line = text_trim(line);
    if (!text_hex(word_take(&line), &address) || line.at == line.end || line.end[-1] != ')')
        return false;
    const char *bracket = line.end - 1;
    while (bracket > line.at && *bracket != '(')
        bracket--;
    if (*bracket != '(')
        return false;
    *file = (struct span){bracket + 1, line.end - 1};
    *function = text_trim_end((struct span){line.at, bracket});
    for (const char *at = function->end; at > function->at; at--)
        if (at[-1] == '+') {
            function->end = at - 1;
            break;
        }
    return true;
}

bool perf_text_recognise(const uint8_t *bytes, size_t size)
{
    struct lines lines = lines_over(bytes, size < LOOKED_AT ? size : LOOKED_AT);
    struct span line;
    struct perf_line sample;
    while (lines_next_full(&lines, &line))
        if (*line.at != '#')
            return perf_line_read(line, &sample);
    return false;
}
