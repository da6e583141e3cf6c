// SPDX-License-Identifier: Apache-2.0
//
// Patterns become programs. The code of a part of the pattern is one run of steps, so a repetition
// or an alternative can be put around the part: steps are inserted, or the run is copied. Open
// groups are a list, so the nesting of the pattern takes no stack.
#include "converter/functions/regex.h"
#include "converter/functions/regex_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/text.h"

#define STEPS_MAX  20000 // of a program
#define NESTED_MAX 200   // parentheses
#define REPEAT_MAX 1000

struct group {
    int32_t begin;       // step
    int32_t alternative; // the step at which the present alternative begins
    int32_t jumps;       // the last jump to the group's end; its x is the jump before; -1: none
    int order;           // number of the group; 0: the group has no number
    uint8_t flags;       // of the pattern around the group
};

enum { IGNORES_CASE = 1, DOT_IS_ALL = 2, MANY_LINES = 4, IS_UNGREEDY = 8 };

struct compiler {
    struct regex *regex;
    const char *at, *end;
    struct group groups[NESTED_MAX];
    int n_nested; // at least 1: the whole pattern
    uint8_t flags;
    int32_t atom;    // the step at which the last part begins; -1: nothing to repeat
    bool is_literal; // inside \Q..\E
    const char *why;
    bool no_memory;
};

static bool fail(struct compiler *compiler, const char *why)
{
    if (!compiler->why)
        compiler->why = why;
    return false;
}

static int32_t steps_n(const struct compiler *compiler)
{
    return (int32_t)compiler->regex->steps.n;
}

static bool step_add(struct compiler *compiler, enum operation operation, int32_t x, int32_t y)
{
    struct step step = {operation, x, y};
    if (steps_n(compiler) >= STEPS_MAX)
        return fail(compiler, "the pattern is too long");
    if (step_vec_push(&compiler->regex->steps, step) < 0) {
        compiler->no_memory = true;
        return fail(compiler, "out of memory");
    }
    return true;
}

static bool step_insert(struct compiler *compiler, int32_t at, int32_t x, int32_t y)
{
    if (!step_add(compiler, STEP_SPLIT, x, y))
        return false;
    struct step *steps = compiler->regex->steps.items;
    memmove(&steps[at + 1], &steps[at], (size_t)(steps_n(compiler) - 1 - at) * sizeof(*steps));
    steps[at] = (struct step){STEP_SPLIT, x, y};
    return true;
}

static bool atom_add(struct compiler *compiler, enum operation operation, int32_t x, int32_t y)
{
    compiler->atom = steps_n(compiler);
    return step_add(compiler, operation, x, y);
}

static bool character_add(struct compiler *compiler, uint32_t c)
{
    bool has_cases = compiler->flags & IGNORES_CASE && is_letter(c);
    return atom_add(compiler, STEP_CHARACTER, (int32_t)c, (int32_t)(has_cases ? c ^ 0x20 : c));
}

static void set_add_ascii(struct set *set, uint32_t c, bool ignores_case)
{
    set->ascii[c / 32] |= 1u << (c % 32);
    if (ignores_case && is_letter(c))
        set->ascii[(c ^ 0x20) / 32] |= 1u << ((c ^ 0x20) % 32);
}

static bool set_add(struct compiler *compiler, struct set *set, uint32_t first, uint32_t last)
{
    for (uint32_t c = first; c <= last && c < 128; c++)
        set_add_ascii(set, c, compiler->flags & IGNORES_CASE);
    struct range range = {first, last};
    if (last >= 128 && range_vec_push(&set->ranges, range) < 0) {
        compiler->no_memory = true;
        return fail(compiler, "out of memory");
    }
    return true;
}

static const struct {
    const char *name;
    const char *ranges; // pairs of a first and a last character
} classes[] = {
    {"d", "09"},           {"w", "09AZ__az"},   {"s", "\t\n\f\r  "}, {"alnum", "09AZaz"},
    {"alpha", "AZaz"},     {"ascii", "\1\x7f"}, {"blank", "\t\t  "}, {"cntrl", "\1\x1f\x7f\x7f"},
    {"digit", "09"},       {"graph", "!~"},     {"lower", "az"},     {"print", " ~"},
    {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"},     {"word", "09AZ__az"},
    {"xdigit", "09AFaf"},
};

// Adds a class, or all characters that are not in the class. Returns false if the class is unknown.
static bool class_add(struct compiler *compiler, struct set *set, const char *name, size_t size,
                      bool is_negative)
{
    for (size_t i = 0; i < ELEMENTS(classes); i++) {
        if (strlen(classes[i].name) != size || memcmp(classes[i].name, name, size) != 0)
            continue;
        struct set alone = {0};
        for (const char *pair = classes[i].ranges; *pair; pair += 2)
            for (uint32_t c = (unsigned char)pair[0]; c <= (unsigned char)pair[1]; c++)
                set_add_ascii(&alone, c, false);
        for (uint32_t c = 0; c < 128; c++)
            if ((alone.ascii[c / 32] >> (c % 32) & 1) != is_negative)
                set_add_ascii(set, c, compiler->flags & IGNORES_CASE);
        return !is_negative || set_add(compiler, set, 128, RAW_BYTE + 255);
    }
    return fail(compiler, "there is no such class of characters");
}

static int32_t set_keep(struct compiler *compiler, struct set *set)
{
    if (set->is_negative)
        for (size_t i = 0; i < ELEMENTS(set->ascii); i++)
            set->ascii[i] = ~set->ascii[i];
    if (set_vec_push(&compiler->regex->sets, *set) == 0)
        return (int32_t)compiler->regex->sets.n - 1;
    range_vec_done(&set->ranges);
    compiler->no_memory = true;
    fail(compiler, "out of memory");
    return -1;
}

static bool set_atom(struct compiler *compiler, struct set *set, bool is_whole)
{
    if (!is_whole) {
        range_vec_done(&set->ranges);
        return false;
    }
    int32_t kept = set_keep(compiler, set);
    return kept >= 0 && atom_add(compiler, STEP_SET, kept, 0);
}

// Reads the digits after \x: two digits, or up to six in braces.
static bool hex_read(struct compiler *compiler, uint32_t *ret)
{
    bool braces = compiler->at < compiler->end && *compiler->at == '{';
    int digits = 0, most = braces ? 6 : 2;
    compiler->at += braces;
    for (*ret = 0; compiler->at < compiler->end && hex_digit(*compiler->at) >= 0 && digits < most;
         digits++)
        *ret = *ret << 4 | (uint32_t)hex_digit(*compiler->at++);
    bool closed = !braces || (compiler->at < compiler->end && *compiler->at++ == '}');
    if (digits == 0 || (!braces && digits < 2) || !closed || *ret > RUNE_MAX)
        return fail(compiler, "\\x takes two hexadecimal digits, or some in braces");
    return true;
}

// Reads an escaped character after the backslash. Returns false after an error, and also without an
// error if the escape is not a character.
static bool escape_read(struct compiler *compiler, uint32_t *ret)
{
    static const char letters[] = "tnrfva", meant[] = "\t\n\r\f\v\a";
    char c = *compiler->at;
    const char *found = c ? strchr(letters, c) : NULL;
    if (c == 'x') {
        compiler->at++;
        return hex_read(compiler, ret);
    }
    if (c == '0') {
        compiler->at++;
        *ret = 0;
        return true;
    }
    if (!found && is_word((unsigned char)c))
        return false;
    *ret = rune_read(&compiler->at, compiler->end);
    if (found)
        *ret = (unsigned char)meant[found - letters];
    return true;
}

static bool is_class_letter(char c)
{
    return c && strchr("dwsDWS", c);
}

// Compiles the escape after a backslash: a class, a place, a quoted text or a character.
static bool escape_compile(struct compiler *compiler)
{
    static const struct {
        char c;
        enum operation operation;
    } places[] = {
        {'A', STEP_BEGIN}, {'z', STEP_END}, {'b', STEP_WORD_EDGE}, {'B', STEP_NO_WORD_EDGE}};
    uint32_t character;
    if (compiler->at == compiler->end)
        return fail(compiler, "a backslash is at the end");
    char c = *compiler->at;
    if (c == 'Q' || c == 'E') {
        compiler->is_literal = c == 'Q';
        compiler->at++;
        return true;
    }
    for (size_t i = 0; i < ELEMENTS(places); i++)
        if (places[i].c == c) {
            compiler->at++;
            return atom_add(compiler, places[i].operation, 0, 0);
        }
    if (is_class_letter(c)) {
        struct set set = {0};
        char name = (char)(c | 0x20);
        compiler->at++;
        return set_atom(compiler, &set, class_add(compiler, &set, &name, 1, name != c));
    }
    if (escape_read(compiler, &character))
        return character_add(compiler, character);
    return fail(compiler, "there is no such escape");
}

// Reads [:name:]; `at` is after the bracket. Returns false if this is not the name of a class, or
// after an error.
static bool named_class(struct compiler *compiler, struct set *set)
{
    const char *at = compiler->at;
    if (compiler->end - at < 2 || *at != ':')
        return false;
    bool is_negative = at[1] == '^';
    const char *name = at + 1 + is_negative, *after = name;
    while (after < compiler->end && is_letter((unsigned char)*after))
        after++;
    if (compiler->end - after < 2 || after[0] != ':' || after[1] != ']')
        return false;
    compiler->at = after + 2;
    return class_add(compiler, set, name, (size_t)(after - name), is_negative);
}

// Reads one end of a range in a set. *is_class: a class was read and added instead.
static bool set_end_read(struct compiler *compiler, struct set *set, uint32_t *ret, bool *is_class)
{
    *is_class = false;
    if (compiler->at == compiler->end)
        return fail(compiler, "a ] is missing");
    if (*compiler->at != '\\') {
        *ret = rune_read(&compiler->at, compiler->end);
        *is_class = *ret == '[' && named_class(compiler, set);
        return !compiler->why;
    }
    if (++compiler->at == compiler->end)
        return fail(compiler, "a backslash is at the end");
    char c = *compiler->at, name = (char)(c | 0x20);
    if (is_class_letter(c)) {
        compiler->at++;
        *is_class = true;
        return class_add(compiler, set, &name, 1, name != c);
    }
    return escape_read(compiler, ret) || fail(compiler, "there is no such escape in a set");
}

static bool set_read(struct compiler *compiler, struct set *set)
{
    const char *begin = compiler->at;
    for (;;) {
        uint32_t first, last;
        bool is_class, is_range;
        if (compiler->at < compiler->end && *compiler->at == ']' && compiler->at != begin) {
            compiler->at++;
            return true;
        }
        if (!set_end_read(compiler, set, &first, &is_class))
            return false;
        if (is_class)
            continue;
        last = first;
        is_range =
            compiler->end - compiler->at >= 2 && *compiler->at == '-' && compiler->at[1] != ']';
        compiler->at += is_range;
        if (is_range && !set_end_read(compiler, set, &last, &is_class))
            return false;
        if (is_class || last < first)
            return fail(compiler, "a range in a set ends before its start");
        if (!set_add(compiler, set, first, last))
            return false;
    }
}

static bool set_compile(struct compiler *compiler)
{
    struct set set = {0};
    set.is_negative = compiler->at < compiler->end && *compiler->at == '^';
    compiler->at += set.is_negative;
    return set_atom(compiler, &set, set_read(compiler, &set));
}

// -- groups --

static bool follows(const struct compiler *compiler, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(compiler->end - compiler->at) >= n && memcmp(compiler->at, text, n) == 0;
}

static struct group *group_now(struct compiler *compiler)
{
    return &compiler->groups[compiler->n_nested - 1];
}

static bool alternative_end(struct compiler *compiler)
{
    struct group *group = group_now(compiler);
    int32_t begin = group->alternative, length = steps_n(compiler) - begin;
    if (!step_insert(compiler, begin, 1, length + 2) ||
        !step_add(compiler, STEP_JUMP, group->jumps, 0))
        return false;
    group->jumps = steps_n(compiler) - 1;
    group->alternative = steps_n(compiler);
    compiler->atom = -1;
    return true;
}

static bool group_begin(struct compiler *compiler, int number, uint8_t flags)
{
    if (compiler->n_nested == NESTED_MAX)
        return fail(compiler, "too many parentheses are nested");
    int32_t begin = steps_n(compiler);
    if (number == 1 && !step_add(compiler, STEP_SAVE, 2, 0))
        return false;
    compiler->groups[compiler->n_nested++] =
        (struct group){begin, steps_n(compiler), -1, number, compiler->flags};
    compiler->flags = flags;
    compiler->atom = -1;
    return true;
}

static bool group_end(struct compiler *compiler)
{
    struct group group = *group_now(compiler);
    struct step *steps = compiler->regex->steps.items;
    for (int32_t jump = group.jumps, before; jump >= 0; jump = before) {
        before = steps[jump].x;
        steps[jump].x = steps_n(compiler) - jump;
    }
    compiler->n_nested--;
    compiler->flags = group.flags;
    compiler->atom = group.begin;
    return group.order != 1 || step_add(compiler, STEP_SAVE, 3, 0);
}

// Reads the flags after "(?", then a parenthesis or colon.
static bool flags_read(struct compiler *compiler)
{
    static const char letters[] = "ismU";
    uint8_t flags = compiler->flags;
    bool sets = true;
    for (; compiler->at < compiler->end; compiler->at++) {
        char c = *compiler->at;
        const char *found = c ? strchr(letters, c) : NULL;
        if (found)
            flags = (uint8_t)(sets ? flags | 1u << (found - letters)
                                   : flags & ~(1u << (found - letters)));
        else if (c == '-' && sets)
            sets = false;
        else
            break;
    }
    if (compiler->at < compiler->end && *compiler->at == ')') {
        compiler->at++;
        compiler->flags = flags;
        compiler->atom = -1;
        return true;
    }
    if (compiler->at < compiler->end && *compiler->at == ':') {
        compiler->at++;
        return group_begin(compiler, 0, flags);
    }
    return fail(compiler, "what stands after (? is not known");
}

// Compiles the text after an opening parenthesis.
static bool group_compile(struct compiler *compiler)
{
    size_t left = (size_t)(compiler->end - compiler->at);
    bool has_name =
        left > 3 && (follows(compiler, "?P<") ||
                     (follows(compiler, "?<") && compiler->at[2] != '=' && compiler->at[2] != '!'));
    if (has_name) {
        const char *after = memchr(compiler->at, '>', left);
        if (!after)
            return fail(compiler, "the name of a group does not end");
        compiler->at = after + 1;
    } else if (left > 0 && *compiler->at == '?') {
        compiler->at++;
        return flags_read(compiler);
    }
    return group_begin(compiler, ++compiler->regex->n_groups, compiler->flags);
}

// -- repetitions --

static bool atom_copy(struct compiler *compiler, int32_t begin, int32_t length)
{
    for (int32_t i = 0; i < length; i++) {
        struct step step = compiler->regex->steps.items[begin + i];
        if (!step_add(compiler, step.operation, step.x, step.y))
            return false;
    }
    return true;
}

static void split_prefer(struct compiler *compiler, int32_t step, bool is_lazy)
{
    struct step *split = &compiler->regex->steps.items[step];
    if (is_lazy)
        *split = (struct step){STEP_SPLIT, split->y, split->x};
}

// Repeats the atom `least` to `most` times; -1: without limit. The atom's code is at the end of the
// program.
static bool repeat(struct compiler *compiler, int least, int most, bool is_lazy)
{
    int32_t begin = compiler->atom, length = steps_n(compiler) - begin;
    for (int i = 1; i < least; i++)
        if (!atom_copy(compiler, begin, length))
            return false;
    if (most == 0) {
        compiler->regex->steps.n = (size_t)begin;
        return true;
    }
    if (least == 0) {
        // A split allows a match without the first copy.
        bool loops = most < 0;
        int32_t more = loops ? 0 : (most - 1) * (length + 1);
        if (!step_insert(compiler, begin, 1, length + 1 + loops + more))
            return false;
        split_prefer(compiler, begin, is_lazy);
        least = 1;
        begin++;
    }
    if (most < 0) {
        // The step back is at the end, so an empty part ends the loop, as in Perl.
        if (!step_add(compiler, STEP_SPLIT, -length, 1))
            return false;
        split_prefer(compiler, steps_n(compiler) - 1, is_lazy);
        return true;
    }
    for (int left = most - least; left > 0; left--) {
        if (!step_add(compiler, STEP_SPLIT, 1, left * (length + 1)))
            return false;
        split_prefer(compiler, steps_n(compiler) - 1, is_lazy);
        if (!atom_copy(compiler, begin, length))
            return false;
    }
    return true;
}

// Reads {n}, {n,} or {n,m} after the brace. Returns false if this is not a repetition.
static bool counts_read(const char **ret_at, const char *end, int *least, int *most)
{
    const char *at = *ret_at;
    int counts[2] = {-1, -1}, n = 0;
    for (; n < 2; n++) {
        while (at < end && is_digit(*at) && counts[n] < 10000)
            counts[n] = (counts[n] < 0 ? 0 : counts[n] * 10) + (*at++ - '0');
        if (at == end || *at != ',')
            break;
        at++;
    }
    if (n == 2 || at == end || *at != '}' || counts[0] < 0)
        return false;
    *least = counts[0];
    *most = n == 0 ? counts[0] : counts[1];
    *ret_at = at + 1;
    return true;
}

// Compiles a repetition at the present place, if there is one; *ret says whether. Returns false
// after an error.
static bool repetition_compile(struct compiler *compiler, bool *ret)
{
    char c = *compiler->at;
    int least = c == '+', most = c == '?' ? 1 : -1;
    const char *after = compiler->at + 1;
    *ret = c == '*' || c == '+' || c == '?' ||
           (c == '{' && counts_read(&after, compiler->end, &least, &most));
    if (!*ret)
        return true;
    if (compiler->atom < 0)
        return fail(compiler, "there is nothing to repeat");
    if (least > REPEAT_MAX || most > REPEAT_MAX || (most >= 0 && most < least))
        return fail(compiler, "the numbers of a repetition are too large, or in the wrong order");
    bool is_lazy = compiler->flags & IS_UNGREEDY;
    compiler->at = after;
    if (after < compiler->end && *after == '?') {
        is_lazy = !is_lazy;
        compiler->at++;
    }
    bool good = repeat(compiler, least, most, is_lazy);
    compiler->atom = -1;
    return good;
}

static bool part_compile(struct compiler *compiler)
{
    bool many_lines = compiler->flags & MANY_LINES, done = false;
    if (compiler->is_literal) {
        if (follows(compiler, "\\E")) {
            compiler->is_literal = false;
            compiler->at += 2;
            return true;
        }
        return character_add(compiler, rune_read(&compiler->at, compiler->end));
    }
    if (!repetition_compile(compiler, &done) || done)
        return done && !compiler->why;
    uint32_t c = rune_read(&compiler->at, compiler->end);
    switch (c) {
    case '\\':
        return escape_compile(compiler);
    case '[':
        return set_compile(compiler);
    case '.':
        return atom_add(compiler, compiler->flags & DOT_IS_ALL ? STEP_ALL : STEP_ANY, 0, 0);
    case '^':
        return atom_add(compiler, many_lines ? STEP_LINE_BEGIN : STEP_BEGIN, 0, 0);
    case '$':
        return atom_add(compiler, many_lines ? STEP_LINE_END : STEP_END, 0, 0);
    case '|':
        return alternative_end(compiler);
    case '(':
        return group_compile(compiler);
    case ')':
        return compiler->n_nested > 1 ? group_end(compiler) : fail(compiler, "a ( is missing");
    default:
        return character_add(compiler, c);
    }
}

static bool compile(struct compiler *compiler)
{
    compiler->n_nested = 0;
    if (!group_begin(compiler, 0, compiler->flags))
        return false;
    while (compiler->at < compiler->end)
        if (!part_compile(compiler))
            return false;
    if (compiler->n_nested > 1)
        return fail(compiler, "a ) is missing");
    return group_end(compiler) && step_add(compiler, STEP_FOUND, 0, 0);
}

// Finds the literal that each match begins with. Alternatives begin with a split, so the steps
// before the first split are part of each match.
static int literal_find(struct regex *regex)
{
    size_t n = 0;
    const struct step *steps = regex->steps.items;
    while (steps[n].operation == STEP_CHARACTER && steps[n].x == steps[n].y && steps[n].x < 128)
        n++;
    regex->is_anchored = steps[0].operation == STEP_BEGIN;
    regex->is_literal = steps[n].operation == STEP_FOUND;
    if (n == 0)
        return 0;
    regex->literal = malloc(n);
    if (!regex->literal)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        regex->literal[i] = (char)steps[i].x;
    regex->literal_size = n;
    return 0;
}

static int memory_get(struct regex *regex)
{
    size_t n = regex->steps.n;
    regex->now.items = calloc(n, sizeof(*regex->now.items));
    regex->then.items = calloc(n, sizeof(*regex->then.items));
    regex->marks = calloc(n, sizeof(*regex->marks));
    regex->stack = calloc(n + 1, sizeof(*regex->stack));
    return regex->now.items && regex->then.items && regex->marks && regex->stack ? 0 : -ENOMEM;
}

int regex_new(const char *pattern, size_t size, bool ignores_case, struct regex **ret,
              const char **ret_why)
{
    struct compiler *compiler = calloc(1, sizeof(*compiler));
    struct regex *regex = calloc(1, sizeof(*regex));
    int r = compiler && regex ? 0 : -ENOMEM;
    if (r == 0) {
        compiler->regex = regex;
        compiler->at = pattern;
        compiler->end = pattern + size;
        compiler->flags = ignores_case ? IGNORES_CASE : 0;
        if (!compile(compiler)) {
            *ret_why = compiler->why;
            r = compiler->no_memory ? -ENOMEM : -EINVAL;
        }
    }
    free(compiler);
    if (r == 0)
        r = literal_find(regex);
    if (r == 0)
        r = memory_get(regex);
    if (r < 0) {
        regex_free(regex);
        return r;
    }
    *ret = regex;
    return 0;
}
