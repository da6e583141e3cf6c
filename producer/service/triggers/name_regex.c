// SPDX-License-Identifier: Apache-2.0
//
// A config may come from a client that means harm, and regcomp() trusts its caller: it recurses for
// each parenthesis, unrolls each counted repetition, and back-references can make regexec() take
// exponential time. What a name needs is far below the bounds here.
#include "producer/service/triggers/name_regex.h"

#include <errno.h>
#include <string.h>

#include "common/str.h"

#define SIZE_MAX_BYTES 512
#define DEPTH_MAX      16
#define REPEATS_MAX    256 // all counts of an expression, multiplied

// Behind a bracket expression that `at` is the inside of.
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

// The larger number of "{2,5}", of which `at` is behind the brace; at least 1.
static uint64_t largest_count(const char *at)
{
    const char *end = at + strlen(at);
    uint64_t largest = 1, count;
    while (at < end && *at != '}') {
        if (!str_scan_u64(&at, end, &count))
            at++;
        else if (count > largest)
            largest = count < REPEATS_MAX ? count : REPEATS_MAX + 1;
    }
    return largest;
}

static int check(const char *pattern, struct err *err)
{
    uint64_t repeats = 1;
    unsigned depth = 0;
    if (strlen(pattern) > SIZE_MAX_BYTES)
        return err_set(err, -EINVAL, "longer than %d bytes", SIZE_MAX_BYTES);
    for (const char *at = pattern; *at;) {
        char c = *at++;
        if (c == '\\' && *at >= '1' && *at <= '9')
            return err_set(err, -EINVAL, "back-references are not supported");
        if (c == '\\' && *at)
            at++;
        else if (c == '[')
            at = skip_bracket(at);
        else if (c == ')' && depth > 0)
            depth--;
        else if (c == '(' && ++depth > DEPTH_MAX)
            return err_set(err, -EINVAL, "more than %d parentheses inside each other", DEPTH_MAX);
        else if (c == '{' && (repeats *= largest_count(at)) > REPEATS_MAX)
            return err_set(err, -EINVAL, "more than %d repetitions", REPEATS_MAX);
    }
    return 0;
}

int name_regex_make(const char *pattern, regex_t *ret, struct err *err)
{
    int r = check(pattern, err);
    if (r < 0)
        return r;
    r = regcomp(ret, pattern, REG_EXTENDED);
    if (r == 0)
        return 0;
    char why[128];
    regerror(r, ret, why, sizeof(why));
    return err_set(err, -EINVAL, "%s", why);
}

// The match that POSIX wants is the leftmost and of these the longest: if any match is the whole
// name, this one is.
bool name_regex_matches(const regex_t *regex, const char *name)
{
    regmatch_t match;
    return regexec(regex, name, 1, &match, 0) == 0 && match.rm_so == 0 && name[match.rm_eo] == '\0';
}
