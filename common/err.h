// SPDX-License-Identifier: Apache-2.0
//
// How a failure travels. Functions return 0 or a negative errno. They describe the failure for a
// person in a `struct err` that the caller owns. The program prints this text once, as `program:
// what: why (what to do)`. Library code never prints.
//
// A failure leaves `*ret` untouched. The exception is a container of the caller that a function
// fills (a vector, a string buffer): the container may hold a part, and the caller releases it in
// any case.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ERR_TEXT_MAX 1024
#define ERR_HINT_MAX 256

// All zero means "no error". Texts are always terminated, and cut at their limits.
struct err {
    char text[ERR_TEXT_MAX]; // "what: why", without program name and newline
    char hint[ERR_HINT_MAX]; // "what to do", printed in parentheses; may be empty
};

// These functions return `r` unchanged, so that one statement fails: `return err_set(err, -EINVAL,
// ...)`. `err` may be NULL: then the text is dropped.
//
// err_set() sets the text.
__attribute__((format(printf, 3, 4))) int err_set(struct err *err, int r, const char *format, ...);

// Sets the text, followed by ": " and strerror(-r).
__attribute__((format(printf, 3, 4))) int err_errno(struct err *err, int r, const char *format,
                                                    ...);

// Returns the end of `name` if `name` is so long that no reason would fit behind it; otherwise
// `name`.
const char *err_name(const char *name);

// Puts "PREFIX: " in front of the present text.
__attribute__((format(printf, 3, 4))) int err_prefix(struct err *err, int r, const char *format,
                                                     ...);

__attribute__((format(printf, 3, 4))) int err_hint(struct err *err, int r, const char *format, ...);

// What ends a piece of work that many functions take part in, such as a conversion. Whoever cannot
// go on notes it, does nothing more, and returns as if all were well; those who called go on until
// they are back where the work is driven, which looks once. The first failure stays, since those
// behind it follow from it. All zero: there is none.
struct failure {
    int code;       // 0 or a negative errno
    struct err err; // its text; may be empty
};

// `r` (0: nothing happens) becomes the failure if it is the first one: then true, and the text is
// the caller's to give.
static inline bool failure_note(struct failure *failure, int r)
{
    if (r == 0 || failure->code < 0)
        return false;
    failure->code = r;
    return true;
}

// Prints `program: text (hint)` and a newline to stderr.
void err_print(const struct err *err, const char *program);
