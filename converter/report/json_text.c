// SPDX-License-Identifier: Apache-2.0
//
// A script element ends at the first "</script" in any content. Therefore '<' is always escaped.
#include "converter/report/json_text.h"

#include <math.h>

void json_add_text(struct strbuf *json, const char *text)
{
    const char *end = text + strlen(text);
    strbuf_add_char(json, '"');
    while (text < end) {
        uint32_t point = 0;
        size_t size = str_utf8_decode(text, end, &point);
        if (!size)
            strbuf_add_char(json, '?');
        else if (*text == '"' || *text == '\\')
            strbuf_addf(json, "\\%c", *text);
        else if (point < ' ' || point == '<' || point == '>' || point == '&' || point == 0x7f)
            strbuf_addf(json, "\\u%04x", (unsigned)point);
        else
            strbuf_add(json, text, size);
        text += size ? size : 1;
    }
    strbuf_add_char(json, '"');
}

void json_add_double(struct strbuf *json, double value)
{
    if (!isfinite(value))
        strbuf_add_str(json, "null");
    else if (value == floor(value) && fabs(value) < 1e15)
        strbuf_addf(json, "%.0f", value);
    else
        strbuf_addf(json, "%.6g", value);
}

void html_add_text(struct strbuf *html, const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        bool printable;
        size_t size = str_character(text, end, &printable);
        if (!printable)
            strbuf_add_char(html, '?');
        else if (*text == '&')
            strbuf_add_str(html, "&amp;");
        else if (*text == '<')
            strbuf_add_str(html, "&lt;");
        else if (*text == '>')
            strbuf_add_str(html, "&gt;");
        else if (*text == '"')
            strbuf_add_str(html, "&quot;");
        else
            strbuf_add(html, text, size);
        text += size;
    }
}
