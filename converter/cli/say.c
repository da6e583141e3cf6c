// SPDX-License-Identifier: Apache-2.0
//
// The whole message is made printable, so that callers need not know which parts are untrusted.
#include "converter/cli/say.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/str.h"

static struct strbuf *held; // borrowed; NULL: messages are printed

void say(const char *format, ...)
{
    CLEANUP(freep) char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text)
        str_make_printable(text, false);
    if (held)
        strbuf_addf(held, "mmsql: %s\n", text ? text : "out of memory");
    else
        fprintf(stderr, "mmsql: %s\n", text ? text : "out of memory");
}

void say_hold(struct strbuf *to)
{
    held = to;
}
