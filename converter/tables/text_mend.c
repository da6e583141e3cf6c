// SPDX-License-Identifier: Apache-2.0
#include "converter/tables/text_mend.h"

#define REPLACEMENT 0xfffd

void text_mend(struct strbuf *to, const char *text, size_t size)
{
    const char *at = text, *end = text + size;
    size_t n = 1;
    while (at < end && (n = (unsigned char)*at < 0x80 ? 1 : str_utf8_decode(at, end, NULL)))
        at += n;
    if (at < end)
        strbuf_add(to, text, (size_t)(at - text));
    for (; at < end; at += n ? n : 1) {
        n = str_utf8_decode(at, end, NULL);
        if (n)
            strbuf_add(to, at, n);
        else
            strbuf_add_utf8(to, REPLACEMENT);
    }
}
