// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/json_out.h"

#include <inttypes.h>

void json_out_text(struct strbuf *out, const char *text)
{
    strbuf_add_char(out, '"');
    const char *end = text + strlen(text);
    while (text < end) {
        size_t size = str_utf8_decode(text, end, NULL);
        unsigned char c = (unsigned char)*text;
        if (size == 0)
            strbuf_add_str(out, "\\ufffd");
        else if (c == '"' || c == '\\')
            strbuf_addf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            strbuf_addf(out, "\\u%04x", c);
        else
            strbuf_add(out, text, size);
        text += size > 0 ? size : 1;
    }
    strbuf_add_char(out, '"');
}

void json_out_key(struct strbuf *out, const char *key)
{
    if (out->size > 0 && out->text[out->size - 1] != '{')
        strbuf_add_char(out, ',');
    strbuf_addf(out, "\"%s\":", key);
}

void json_out_string(struct strbuf *out, const char *key, const char *value)
{
    if (!value)
        return;
    json_out_key(out, key);
    json_out_text(out, value);
}

void json_out_number(struct strbuf *out, const char *key, bool known, int64_t value)
{
    if (!known)
        return;
    json_out_key(out, key);
    strbuf_addf(out, "%" PRId64, value);
}

void json_out_bool(struct strbuf *out, const char *key, bool value)
{
    json_out_key(out, key);
    strbuf_add_str(out, value ? "true" : "false");
}

void json_out_strings(struct strbuf *out, const char *key, char *const *values, size_t n)
{
    json_out_key(out, key);
    strbuf_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            strbuf_add_char(out, ',');
        json_out_text(out, values[i]);
    }
    strbuf_add_char(out, ']');
}
