// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions as in RE2 and Perl: the first alternative that matches counts, and a
// repetition takes as much text as possible, or as little as possible (*?). For any pattern, a
// search takes time in proportion to the text.
//
// A pattern has: . [a-z] [^a-z] [[:alpha:]] | () (?:) (?P<name>) * + ? {n,m} and *? +? ?? {n,m}?,
// ^ $ \A \z \b \B, \d \w \s \D \W \S \t \n \r \f \v \a \x41 \x{1f600} \Q..\E, and the flags (?i),
// (?s), (?m), also as (?i:...). References back are not supported, because they take more time.
// Texts are UTF-8; a byte that is not UTF-8 stands for itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct regex;

// A part of the text; `begin` SIZE_MAX: the group has not matched.
struct regex_span {
    size_t begin, end;
};

// Compiles a pattern. Returns 0; -ENOMEM; or -EINVAL with the reason in *ret_why.
int regex_new(const char *pattern, size_t size, bool ignores_case, struct regex **ret,
              const char **ret_why);
void regex_free(void *regex); // NULL is allowed

// Returns the number of groups in parentheses.
int regex_n_groups(const struct regex *regex);

// Finds the first match that begins at `from` or later. `ret`, which may be NULL, takes the whole
// match and the first group. The search uses memory of `regex`, so only one search may run at a
// time.
bool regex_find(struct regex *regex, const char *text, size_t size, size_t from,
                struct regex_span ret[2]);
