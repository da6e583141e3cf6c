// SPDX-License-Identifier: Apache-2.0
//
// Binary files of an unknown form are served: a damaged trace is such a file. Text of an unknown
// form is served if enough lines have the shape of a record: a number in front, as in logs of
// Android, a number at the end, as in folded stacks, or a time with a fraction, as in ftrace.
#include "converter/input/ui_kinds.h"

#include <string.h>

#include "common/elements.h"
#include "common/text.h"

#define RECORDS_OF 4 // one of so many lines must be a record

// The parts by which the UI knows texts that mmsql does not read.
static const struct {
    struct text part;
    bool anywhere; // false: at the start of the file
} marks[] = {
    {TEXT("# tracer"), true},
    {TEXT("TRACE:\n"), true},
    {TEXT("cpus="), false},
    {TEXT("# ninja log"), false},
    {TEXT("*version\n"), false},
    {TEXT("SLOW"), false},
    {TEXT("9,0,i,vers,"), false},
    {TEXT("--------- beginning of"), false},
    {TEXT("========================================================\n== dumpstate: "), false},
    {TEXT("<?xml version=\"1.0\"?>\n<trace-query-result>"), false},
};

static bool has_mark(struct text text)
{
    for (size_t i = 0; i < ELEMENTS(marks); i++) {
        struct text part = marks[i].part;
        if (marks[i].anywhere ? memmem(text.at, text.size, part.at, part.size) != NULL
                              : text_starts_with(text, part))
            return true;
    }
    return false;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '[';
}

static bool is_record(const char *line, size_t size)
{
    while (size && is_blank(*line))
        line++, size--;
    while (size && is_blank(line[size - 1]))
        size--;
    if (size && (is_digit(line[0]) || is_digit(line[size - 1])))
        return true;
    for (size_t i = 0; i + 4 < size; i++)
        if (is_digit(line[i]) && line[i + 1] == '.' && is_digit(line[i + 2]) &&
            is_digit(line[i + 3]) && is_digit(line[i + 4]))
            return true;
    return false;
}

// Returns whether text may be a log or a profile of a form that mmsql does not know. Comments do
// not count.
static bool has_records(struct text text)
{
    const char *at = text.at, *end = text.at + text.size;
    size_t n = 0, n_records = 0;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        if (length && *at != '#') {
            n++;
            n_records += is_record(at, length);
        }
        at += newline ? length + 1 : length;
    }
    return n && n_records * RECORDS_OF >= n;
}

enum ui_answer ui_judge(const uint8_t *bytes, size_t size, const struct kind **ret_kind)
{
    struct text text = {(const char *)bytes, size};
    const struct kind *kind = kind_recognise(bytes, size);
    *ret_kind = kind ? kind : kind_of_rest(bytes, size);
    if (kind && kind->ui == KIND_UI_UNSURE)
        return UI_MAY_READ;
    if (kind)
        return kind->ui == KIND_UI_READS || kind->role != ROLE_FOREIGN ? UI_READS : UI_REFUSES;
    if (has_mark(text))
        return UI_READS;
    switch ((*ret_kind)->id) {
    case KIND_TEXT:
        return has_records(text) ? UI_MAY_READ : UI_REFUSES;
    case KIND_ZEROS:
        return UI_REFUSES;
    default:
        return UI_MAY_READ;
    }
}
