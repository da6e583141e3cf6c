// SPDX-License-Identifier: Apache-2.0
//
// A config may come from a hostile client, and regcomp() trusts its caller: regcomp() recurses for
// each parenthesis, and copies the operand of a quantifier (40 plus signs in a row are 2^40
// copies). Back-references can make regexec() take exponential time. Therefore the size of an
// expression after all copies is computed before regcomp() sees the expression. Names need far less
// than the limits here.
//
// regexec() keeps each state of its automaton that a name has reached, and the number of states can
// be as high as the number of names. Therefore an expression is compiled for one match only, and
// its states are freed afterwards.
#include "producer/service/triggers/name_regex.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

#include "common/str.h"

#define SIZE_MAX_BYTES 512
#define DEPTH_MAX      16
#define COPIES_MAX     256 // characters and sets, times the repetitions of their quantifiers
#define NAME_MAX_BYTES 256

// Skips a bracket expression; `at` is inside the expression.
static const char *skip_bracket(const char *at)
{
    at += *at == '^';
    at += *at == ']';
    while (*at && *at != ']') {
        bool is_class = *at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=');
        char end[] = {is_class ? at[1] : '\0', ']', '\0'};
        const char *close = is_class ? strstr(at + 2, end) : NULL;
        at = close ? close + 2 : at + 1;
    }
    return *at ? at + 1 : at;
}

// Returns the largest number of "{2,5}", at least 1; `at` is after the brace. "{2,}" gives one
// more than its number.
static uint64_t largest_count(const char *at)
{
    const char *end = at + strlen(at);
    uint64_t largest = 1, count;
    bool open = false;
    while (at < end && *at != '}') {
        open = *at == ',';
        if (!str_scan_u64(&at, end, &count))
            at++;
        else if (count > largest)
            largest = count < COPIES_MAX ? count : COPIES_MAX + 1;
    }
    return largest + open;
}

// The sizes of an expression during its measurement. Numbers stay small: a step multiplies by
// COPIES_MAX + 2 at most, and refuses a result above COPIES_MAX.
struct measure {
    uint64_t total[DEPTH_MAX + 1]; // of each open parenthesis, without `last`
    uint64_t last;                 // of the operand of a quantifier
    unsigned depth;
};

static void add_atom(struct measure *m, uint64_t size)
{
    m->total[m->depth] += m->last;
    m->last = size;
}

static void close_group(struct measure *m)
{
    uint64_t inside = m->total[m->depth] + m->last;
    m->depth--;
    m->last = inside > 0 ? inside : 1;
}

static int refuse_copies(struct err *err)
{
    return err_set(err, -EINVAL, "more than %d characters when all repetitions are written out",
                   COPIES_MAX);
}

// Measures the next part. An ordinary character, a backslash with the next character, and a set are
// one atom each.
static int measure_step(struct measure *m, const char **at, struct err *err)
{
    char c = *(*at)++;
    if (c == '\\' && **at >= '1' && **at <= '9')
        return err_set(err, -EINVAL, "back-references are not supported");
    if (c == '(') {
        if (m->depth == DEPTH_MAX)
            return err_set(err, -EINVAL, "more than %d parentheses inside each other", DEPTH_MAX);
        add_atom(m, 0);
        m->total[++m->depth] = 0;
    } else if (c == ')' && m->depth > 0) {
        close_group(m);
    } else if (c == '+') {
        m->last *= 2;
    } else if (c == '{') {
        m->last *= largest_count(*at);
        *at += strcspn(*at, "}");
        *at += **at == '}';
    } else if (c == '*' || c == '?') {
        m->last++;
    } else {
        add_atom(m, 1);
        if (c == '[')
            *at = skip_bracket(*at);
        else if (c == '\\' && **at)
            (*at)++;
    }
    return m->last > COPIES_MAX || m->total[m->depth] + m->last > COPIES_MAX ? refuse_copies(err)
                                                                             : 0;
}

static int check_size(const char *pattern, struct err *err)
{
    struct measure m = {0};
    if (strlen(pattern) > SIZE_MAX_BYTES)
        return err_set(err, -EINVAL, "longer than %d bytes", SIZE_MAX_BYTES);
    for (const char *at = pattern; *at;) {
        int r = measure_step(&m, &at, err);
        if (r < 0)
            return r;
    }
    uint64_t sum = m.last;
    for (unsigned i = 0; i <= m.depth; i++)
        sum += m.total[i];
    return sum > COPIES_MAX ? refuse_copies(err) : 0;
}

static int compile(const char *pattern, regex_t *ret, struct err *err)
{
    int r = check_size(pattern, err);
    if (r < 0)
        return r;
    r = regcomp(ret, pattern, REG_EXTENDED);
    if (r == 0)
        return 0;
    char why[128];
    regerror(r, ret, why, sizeof(why));
    return err_set(err, -EINVAL, "%s", why);
}

int name_regex_check(const char *pattern, struct err *err)
{
    regex_t regex;
    int r = compile(pattern, &regex, err);
    if (r == 0)
        regfree(&regex);
    return r;
}

// POSIX demands the longest of the leftmost matches. If any match is the whole name, this match is
// found.
bool name_regex_matches(const char *pattern, const char *name)
{
    regex_t regex;
    regmatch_t match;
    if (strlen(name) > NAME_MAX_BYTES || compile(pattern, &regex, NULL) < 0)
        return false;
    bool whole =
        regexec(&regex, name, 1, &match, 0) == 0 && match.rm_so == 0 && name[match.rm_eo] == '\0';
    regfree(&regex);
    return whole;
}
