// SPDX-License-Identifier: Apache-2.0
//
// A task's name can have any characters, brackets and blanks included. The line is therefore read
// from the CPU in both directions: the first `[NUMBER]` with the right text on both sides is the
// CPU.
#include "converter/input/ftrace_line.h"

#include "common/text.h"

#define LOOKED_AT   4096
#define FRACTION    9 // digits of a second
#define FLAGS_MIN   4
#define FLAGS_MAX   5
#define FLAGS_WORDS 3

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool seconds_take(struct span *text, int64_t *ret)
{
    const char *at = text->at;
    int64_t ns = 0;
    size_t n = 0, n_fraction = 0;
    for (; at < text->end && is_digit(*at) && n < FRACTION; at++, n++)
        ns = ns * 10 + (*at - '0');
    if (!n || at == text->end || *at != '.')
        return false;
    for (at++; at < text->end && is_digit(*at); at++, n_fraction++)
        if (n_fraction < FRACTION)
            ns = ns * 10 + (*at - '0');
    if (!n_fraction)
        return false;
    for (; n_fraction < FRACTION; n_fraction++)
        ns *= 10;
    text->at = at;
    *ret = ns;
    return true;
}

// Removes the digits at the end of `text`. False: no digits, or more than 32 bits.
static bool number_at_end(struct span *text, uint32_t *ret)
{
    const char *at = text->end;
    uint64_t value;
    while (at > text->at && is_digit(at[-1]))
        at--;
    if (!text_decimal((struct span){at, text->end}, &value) || value > UINT32_MAX)
        return false;
    text->end = at;
    *ret = (uint32_t)value;
    return true;
}

// Removes `(TGID)`, `(-----)` or `TGID` at the end of `text`, the text before the CPU.
static void tgid_take(struct span *text, struct ftrace_line *line)
{
    struct span rest = *text;
    bool in_brackets = rest.at < rest.end && rest.end[-1] == ')';
    if (in_brackets) {
        rest.end--;
        rest = text_trim(rest);
    }
    uint32_t number;
    bool has_number = number_at_end(&rest, &number);
    if (!has_number && in_brackets)
        while (rest.at < rest.end && rest.end[-1] == '-')
            rest.end--;
    if (in_brackets) {
        rest = text_trim_end(rest);
        if (rest.at == rest.end || rest.end[-1] != '(')
            return;
        rest.end--;
    } else if (!has_number || rest.at == rest.end || !is_blank(rest.end[-1])) {
        return;
    }
    struct span whole = text_trim(rest), before = whole;
    uint32_t tid;
    if (!number_at_end(&before, &tid) || before.at == before.end || before.end[-1] != '-')
        return;
    line->has_tgid = has_number;
    line->tgid = has_number ? number : 0;
    *text = whole;
}

// Reads the text before the CPU.
static bool task_read(struct span text, struct ftrace_line *line)
{
    text = text_trim(text);
    line->has_tgid = false;
    tgid_take(&text, line);
    if (!number_at_end(&text, &line->tid) || text.at == text.end || text.end[-1] != '-')
        return false;
    text.end--;
    line->task = text_trim(text);
    return true;
}

// Returns true if `text` begins with FLAGS of `n` characters, such as `d..2` and `dNh2.`.
static bool has_flags(struct span text, size_t n)
{
    if (text_size(text) < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text.at[i];
        bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f');
        if (c != '.' && !(i < FLAGS_WORDS ? is_letter(c) : is_hex))
            return false;
    }
    return true;
}

// Reads FLAGS, which may be missing, SECONDS and a colon. FLAGS and SECONDS may stand without a
// blank between them.
static bool time_take(struct span *text, int64_t *ret)
{
    for (size_t n = FLAGS_MAX + 1; n-- >= FLAGS_MIN;) {
        struct span rest = *text;
        bool without = n < FLAGS_MIN;
        if (!without && !has_flags(rest, n))
            continue;
        rest.at += without ? 0 : n;
        rest = text_trim_start(rest);
        if (seconds_take(&rest, ret) && rest.at < rest.end && *rest.at == ':') {
            text->at = rest.at + 1;
            return true;
        }
    }
    return false;
}

// Reads the text after the CPU.
static bool event_read(struct span text, struct ftrace_line *line)
{
    text = text_trim(text);
    if (!time_take(&text, &line->ts))
        return false;
    text = text_trim(text);
    struct span word = word_take(&text);
    const char *colon = word.end;
    while (colon > word.at && colon[-1] != ':')
        colon--;
    if (colon <= word.at + 1)
        return false;
    line->event = (struct span){word.at, colon - 1};
    line->args = text_trim((struct span){colon, text.end});
    return true;
}

bool ftrace_line_read(struct span text, struct ftrace_line *ret)
{
    struct ftrace_line line;
    const char *at = text.at;
    while (at < text.end && (at = memchr(at, '[', (size_t)(text.end - at))) != NULL) {
        struct span digits = {at + 1, at + 1};
        uint64_t cpu;
        while (digits.end < text.end && is_digit(*digits.end))
            digits.end++;
        at++;
        if (digits.end == text.end || *digits.end != ']' || !text_decimal(digits, &cpu) ||
            cpu > UINT32_MAX)
            continue;
        if (!task_read((struct span){text.at, digits.at - 1}, &line) ||
            !event_read((struct span){digits.end + 1, text.end}, &line))
            continue;
        line.cpu = (uint32_t)cpu;
        *ret = line;
        return true;
    }
    return false;
}

// Returns true if the line announces ftrace text.
static bool is_announcement(struct span line, bool is_first)
{
    struct text text = {line.at, text_size(line)};
    return text_is(line, "TRACE:") || text_starts_with(text, TEXT("# tracer:")) ||
           (is_first && text_starts_with(text, TEXT("cpus=")));
}

bool ftrace_text_recognise(const uint8_t *bytes, size_t size)
{
    struct lines lines = lines_over(bytes, size < LOOKED_AT ? size : LOOKED_AT);
    struct span line;
    struct ftrace_line event;
    bool is_first = true, may_be_event = true;
    while (lines_next_full(&lines, &line)) {
        if (is_announcement(line, is_first) ||
            (may_be_event && *line.at != '[' && ftrace_line_read(line, &event)))
            return true;
        is_first = false;
        may_be_event &= *line.at == '#';
    }
    return false;
}

bool systrace_page_recognise(const uint8_t *bytes, size_t size)
{
    static const struct text data = TEXT("<script class=\"trace-data\"");
    return size && memmem(bytes, size, data.at, data.size) != NULL;
}
