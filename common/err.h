// SPDX-License-Identifier: Apache-2.0
//
// Error reports. Functions return 0 or a negative errno, and describe the failure for a person in a
// `struct err` of the caller. The program prints this text once, as `program: what: why (what to
// do)`. Library code never prints.
//
// A failure leaves `*ret` untouched. The exception is a container of the caller (a vector, a string
// buffer, an array of characters, parsed options): after a failure, the container may hold a part
// of the result. The caller always releases the container.
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

// The functions below return `r`, so that a caller fails in one statement: `return err_set(err,
// -EINVAL, ...)`. `err` may be NULL: the text is dropped.
//
// err_set() sets the text.
__attribute__((format(printf, 3, 4))) int err_set(struct err *err, int r, const char *format, ...);

// Sets the text, followed by ": " and strerror(-r).
__attribute__((format(printf, 3, 4))) int err_errno(struct err *err, int r, const char *format,
                                                    ...);

// Returns the end of `name` if `name` is so long that no reason would fit after `name`; otherwise
// `name`.
const char *err_name(const char *name);

// Puts "PREFIX: " before the present text.
__attribute__((format(printf, 3, 4))) int err_prefix(struct err *err, int r, const char *format,
                                                     ...);

__attribute__((format(printf, 3, 4))) int err_hint(struct err *err, int r, const char *format, ...);

// The first failure of a long operation with many functions, for example a conversion. A function
// that fails records the failure, stops its own work, and returns normally. The callers continue up
// to the main loop of the operation, which checks for a failure once. Later failures are dropped,
// because they follow from the first. All zero: no failure.
struct failure {
    int code;       // 0 or a negative errno
    struct err err; // its text; may be empty
};

// Records `r` if `r` is not 0 and no failure is recorded yet. Returns true if `r` was recorded: the
// caller may then set the text.
static inline bool failure_note(struct failure *failure, int r)
{
    if (r == 0 || failure->code < 0)
        return false;
    failure->code = r;
    return true;
}

// Prints `program: text (hint)` and a newline to stderr.
void err_print(const struct err *err, const char *program);
