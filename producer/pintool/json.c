// SPDX-License-Identifier: Apache-2.0
//
// Writes objects inside arrays inside objects straight into a stream: reports can have a million
// entries, and nothing is kept in memory.
#include "producer/pintool/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/pinlist.h"
#include "common/str.h"

static void new_line(struct json *json)
{
    if (!json->compact)
        fprintf(json->out, "\n%*s", (int)json->depth * 2, "");
}

static void quoted(struct json *json, const char *text)
{
    const char *end = text + strlen(text);
    putc_unlocked('"', json->out);
    while (text < end) {
        size_t n = str_utf8_decode(text, end, NULL);
        unsigned char c = (unsigned char)*text;
        if (n == 0) {
            fprintf(json->out, "\\udc%02x", c);
            n = 1;
        } else if (c == '"' || c == '\\') {
            fprintf(json->out, "\\%c", c);
        } else if (c < ' ' || c == 0x7f) {
            fprintf(json->out, "\\u%04x", c);
        } else {
            fwrite_unlocked(text, 1, n, json->out);
        }
        text += n;
    }
    putc_unlocked('"', json->out);
}

static void value_begin(struct json *json, const char *key)
{
    if (json->more[json->depth])
        fputs_unlocked(json->compact ? ", " : ",", json->out);
    json->more[json->depth] = true;
    if (json->depth)
        new_line(json);
    if (key) {
        quoted(json, key);
        fputs_unlocked(": ", json->out);
    }
}

static void nest(struct json *json, const char *key, char bracket)
{
    value_begin(json, key);
    putc_unlocked(bracket, json->out);
    json->depth++;
    json->more[json->depth] = false;
}

static void unnest(struct json *json, char bracket)
{
    bool more = json->more[json->depth];
    json->depth--;
    if (more)
        new_line(json);
    putc_unlocked(bracket, json->out);
    if (json->depth == 0) {
        putc_unlocked('\n', json->out);
        json->more[0] = false;
    }
}

void json_object_begin(struct json *json, const char *key)
{
    nest(json, key, '{');
}

void json_object_end(struct json *json)
{
    unnest(json, '}');
}

void json_array_begin(struct json *json, const char *key)
{
    nest(json, key, '[');
}

void json_array_end(struct json *json)
{
    unnest(json, ']');
}

void json_text(struct json *json, const char *key, const char *text)
{
    if (!text) {
        json_null(json, key);
        return;
    }
    value_begin(json, key);
    quoted(json, text);
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
    value_begin(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_double(struct json *json, const char *key, double value)
{
    if (!isfinite(value)) {
        json_null(json, key);
        return;
    }
    value_begin(json, key);
    fprintf(json->out, "%.6g", value);
}

void json_null(struct json *json, const char *key)
{
    value_begin(json, key);
    fputs_unlocked("null", json->out);
}

void json_range(struct json *json, const char *offset_key, uint64_t offset, uint64_t bytes)
{
    json_object_begin(json, NULL);
    json_u64(json, offset_key, offset);
    json_u64(json, "bytes", bytes);
    json_object_end(json);
}

void json_pinlist(struct json *json, const char *key, const char *path, const struct pinlist *list)
{
    json_object_begin(json, key);
    json_text(json, "path", path);
    json_u64(json, "total_bytes", pinlist_total_bytes(list));
    json_array_begin(json, "ranges");
    vec_foreach(list, range)
        json_range(json, "offset", range->offset, range->length);
    json_array_end(json);
    json_object_end(json);
}
