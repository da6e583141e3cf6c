// SPDX-License-Identifier: Apache-2.0
//
// The text buffer has a fixed size, so that a failure can be reported even without memory. If text
// and prefix do not fit, the end of the old text is cut, never the prefix: the failed operation
// matters more than the detail. A long name (a path of thousands of characters) is cut, never the
// reason after the name.
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"

// Formats the caller's `format` and variable arguments into an array.
#define FORMAT_INTO(array, format)                                                                 \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        vsnprintf(array, sizeof(array), format, args);                                             \
        va_end(args);                                                                              \
    } while (0)

int err_set(struct err *err, int r, const char *format, ...)
{
    if (!err)
        return r;
    FORMAT_INTO(err->text, format);
    err->hint[0] = '\0';
    return r;
}

int err_errno(struct err *err, int r, const char *format, ...)
{
    if (!err)
        return r;
    FORMAT_INTO(err->text, format);
    err->hint[0] = '\0';
    const char *why = strerror(-r);
    size_t used = strlen(err->text), room = sizeof(err->text) - sizeof(": ");
    size_t most = strlen(why) < room ? room - strlen(why) : 0;
    used = used < most ? used : most;
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", why);
    return r;
}

const char *err_name(const char *name)
{
    size_t size = strlen(name);
    return size > ERR_TEXT_MAX / 2 ? name + size - ERR_TEXT_MAX / 2 : name;
}

int err_prefix(struct err *err, int r, const char *format, ...)
{
    if (!err)
        return r;
    char old[ERR_TEXT_MAX];
    memcpy(old, err->text, sizeof(old));
    FORMAT_INTO(err->text, format);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
    return r;
}

int err_hint(struct err *err, int r, const char *format, ...)
{
    if (!err)
        return r;
    FORMAT_INTO(err->hint, format);
    return r;
}

void err_print(const struct err *err, const char *program)
{
    struct err printable = *err;
    str_make_printable(printable.text, true);
    str_make_printable(printable.hint, false);
    if (printable.hint[0])
        fprintf(stderr, "%s: %s (%s)\n", program, printable.text, printable.hint);
    else
        fprintf(stderr, "%s: %s\n", program, printable.text);
}
