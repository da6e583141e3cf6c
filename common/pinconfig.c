// SPDX-License-Identifier: Apache-2.0
//
// A config is used whole or not at all, because half of a config would pin other pages than its
// author meant. Therefore an unknown word is an error. The file is a stream of words, as in the
// first program that read the format. Quotes and comments are additions. An older file does not
// contain them by chance, because a name is always the word after `file`. Only a name that begins
// with a quote is read differently.
#include "common/pinconfig.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define LINE_SHOWN_MAX 120

struct word {
    const char *at;
    size_t size;
    unsigned line;
};

struct parser {
    const char *name;
    const char *at, *end;
    const char *line_start;
    unsigned line;
    struct word word; // the last word that was taken
    const char *word_line_start;
    struct pinconfig *config;
    struct err *err;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

__attribute__((format(printf, 2, 3))) static int fail_at_word(struct parser *p, const char *format,
                                                              ...)
{
    char why[256], shown[LINE_SHOWN_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    str_make_printable(why, false);
    size_t column = (size_t)(p->word.at - p->word_line_start);
    size_t before = column < LINE_SHOWN_MAX / 2 ? column : LINE_SHOWN_MAX / 2;
    const char *from = p->word.at - before, *to = from;
    while (to < p->end && *to != '\n' && *to != '\r' && to - from < LINE_SHOWN_MAX)
        to++;
    size_t n = (size_t)(to - from);
    for (size_t i = 0; i < n; i++) // per byte, so that the caret is below its word
        shown[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
    shown[n] = '\0';
    return err_set(p->err, -EBADMSG, "%s:%u:%zu: %s\n  %s\n  %*s", p->name, p->word.line,
                   column + 1, why, shown, (int)before + 1, "^");
}

static void skip_line(struct parser *p)
{
    while (p->at < p->end && *p->at != '\n')
        p->at++;
}

// Moves to the next word. Returns false at the end, with an empty p->word.
static bool word_find(struct parser *p, bool comments)
{
    for (; p->at < p->end; p->at++) {
        if (comments && *p->at == '#')
            skip_line(p);
        if (p->at == p->end || !is_blank(*p->at))
            break;
        if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        }
    }
    p->word = (struct word){.at = p->at, .line = p->line};
    p->word_line_start = p->line_start;
    return p->at < p->end;
}

static bool word_next(struct parser *p)
{
    if (!word_find(p, true))
        return false;
    while (p->at < p->end && !is_blank(*p->at))
        p->at++;
    p->word.size = (size_t)(p->at - p->word.at);
    return true;
}

static bool word_is(const struct parser *p, const char *text)
{
    return p->word.size == strlen(text) && memcmp(p->word.at, text, p->word.size) == 0;
}

static int number_next(struct parser *p, const char *what, uint64_t *ret)
{
    char digits[32];
    if (!word_next(p))
        return fail_at_word(p, "a number is missing after '%s'", what);
    if (p->word.size >= sizeof(digits))
        return fail_at_word(p, "this is not a number");
    memcpy(digits, p->word.at, p->word.size);
    digits[p->word.size] = '\0';
    int r = strlen(digits) == p->word.size ? str_parse_u64(digits, ret) : -EINVAL;
    if (r < 0)
        return fail_at_word(p, r == -ERANGE ? "the number is too large" : "this is not a number");
    return 0;
}

// Reads the name after `file`: a word, or any text without newlines in double quotes.
static int name_next(struct parser *p, char **ret)
{
    if (!word_find(p, false))
        return fail_at_word(p, "a name is missing after 'file'");
    struct word name = p->word;
    if (*p->at == '"') {
        name.at = ++p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\n')
            p->at++;
        if (p->at == p->end || *p->at != '"')
            return fail_at_word(p, "the quote is not closed");
        name.size = (size_t)(p->at++ - name.at);
        if (p->at < p->end && !is_blank(*p->at))
            return fail_at_word(p, "text follows the closing quote");
    } else {
        while (p->at < p->end && !is_blank(*p->at))
            p->at++;
        name.size = (size_t)(p->at - name.at);
    }
    p->word.size = name.size;
    if (memchr(name.at, '\0', name.size))
        return fail_at_word(p, "a name cannot hold a null byte");
    char *copy = strndup(name.at, name.size);
    if (!copy)
        return err_errno(p->err, -ENOMEM, "%s", p->name);
    *ret = copy;
    return 0;
}

static int file_begin(struct parser *p)
{
    struct pinconfig_file file = {.line = p->word.line, .first_range = p->config->ranges.n};
    int r = name_next(p, &file.pattern);
    if (r < 0)
        return r;
    r = pinconfig_files_push(&p->config->files, file);
    if (r < 0) {
        free(file.pattern);
        return err_errno(p->err, r, "%s", p->name);
    }
    return 0;
}

// Reads the range after the word `offset`.
static int range_read(struct parser *p)
{
    struct pinconfig_range range = {.line = p->word.line};
    if (!p->config->files.n)
        return fail_at_word(p, "a range must follow the file that it belongs to");
    int r = number_next(p, "offset", &range.offset);
    if (r < 0)
        return r;
    if (!word_next(p) || !(word_is(p, "len") || word_is(p, "length")))
        return fail_at_word(p, "'len' must follow an offset");
    r = number_next(p, "len", &range.length);
    if (r < 0)
        return r;
    r = pinconfig_ranges_push(&p->config->ranges, range);
    if (r < 0)
        return err_errno(p->err, r, "%s", p->name);
    p->config->files.items[p->config->files.n - 1].n_ranges++;
    return 0;
}

static int unknown_word(struct parser *p)
{
    if (word_is(p, "len") || word_is(p, "length"))
        return fail_at_word(p, "a length must follow its offset");
    return fail_at_word(p, "'file' or 'offset' is expected%s",
                        p->config->files.n ? "; put a name with blanks into double quotes" : "");
}

int pinconfig_parse(const char *text, size_t size, const char *name, struct pinconfig *ret,
                    struct err *err)
{
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    struct parser p = {.name = name,
                       .at = text,
                       .end = text + size,
                       .line_start = text,
                       .line = 1,
                       .config = &config,
                       .err = err};
    while (word_next(&p)) {
        int r = word_is(&p, "file")     ? file_begin(&p)
                : word_is(&p, "offset") ? range_read(&p)
                                        : unknown_word(&p);
        if (r < 0)
            return r;
    }
    if (!config.files.n)
        return err_set(err, -EBADMSG, "%s: not a pinconfig: it names no file", name);
    *ret = config;
    config = (struct pinconfig){0};
    return 0;
}

void pinconfig_done(struct pinconfig *config)
{
    vec_foreach(&config->files, file)
        free(file->pattern);
    pinconfig_files_done(&config->files);
    pinconfig_ranges_done(&config->ranges);
}

const struct pinconfig_file *pinconfig_match(const struct pinconfig *config, const char *entry)
{
    vec_foreach(&config->files, file) {
        if (strstr(entry, file->pattern))
            return file;
    }
    return NULL;
}

int pinconfig_select(const struct pinconfig *config, const struct pinconfig_file *file,
                     uint64_t base, uint64_t size, struct page_ranges *ret)
{
    page_ranges_clear(ret);
    if (!file->n_ranges)
        return page_ranges_append(ret, base, base + size);
    for (size_t i = 0; i < file->n_ranges; i++) {
        const struct pinconfig_range *range = &config->ranges.items[file->first_range + i];
        if (range->offset >= size)
            continue;
        uint64_t room = size - range->offset;
        uint64_t length = range->length < room ? range->length : room;
        int r = 0;
        if (length)
            r = page_ranges_push(ret, (struct page_range){.start = base + range->offset,
                                                          .end = base + range->offset + length});
        if (r < 0)
            return r;
    }
    page_ranges_normalize(ret);
    return 0;
}

bool pinconfig_add_file(struct strbuf *out, const char *name)
{
    bool plain = *name && *name != '"';
    for (const char *c = name; *c; c++) {
        if (*c == '\n')
            return false;
        plain &= !is_blank(*c);
    }
    if (!plain && strchr(name, '"'))
        return false;
    strbuf_addf(out, plain ? "file %s\n" : "file \"%s\"\n", name);
    return true;
}

void pinconfig_add_range(struct strbuf *out, uint64_t offset, uint64_t length)
{
    strbuf_addf(out, "offset %" PRIu64 "\nlen %" PRIu64 "\n", offset, length);
}
