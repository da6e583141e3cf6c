// SPDX-License-Identifier: Apache-2.0
//
// See arg_writer.h. A key repeats the names of the levels around its arg, so a short message can
// produce gigabytes of keys. The writer limits the bytes of keys.
#include "converter/import/arg_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "converter/decode/message.h"
#include "protos/fields.h"

#define ARGS_MAX      4096 // args of a row
#define KEY_BYTES_MAX ((size_t)256 << 10)
#define LIST_KEY_MAX  1024 // bytes; each access to a list hashes the list's whole key

static void strbuf_cut(struct strbuf *buf, size_t size)
{
    if (size < buf->size) {
        buf->size = size;
        buf->text[size] = '\0';
    }
}

// Enters a level. Returns false if the nesting is too deep or an arg was left out before.
static bool deeper(struct arg_writer *writer, bool fits, struct arg_place *ret)
{
    writer->is_cut |= writer->depth == ARG_DEPTH_MAX || !fits;
    if (writer->is_cut)
        return false;
    writer->depth++;
    *ret = (struct arg_place){writer->key.size, writer->flat_key.size};
    return true;
}

bool arg_enter(struct arg_writer *writer, struct text name, struct arg_place *ret)
{
    if (!deeper(writer, name.size <= KEY_BYTES_MAX, ret))
        return false;
    if (writer->key.size) {
        strbuf_add_char(&writer->key, '.');
        strbuf_add_char(&writer->flat_key, '.');
    }
    strbuf_add(&writer->key, name.at, name.size);
    strbuf_add(&writer->flat_key, name.at, name.size);
    return true;
}

bool arg_enter_element(struct arg_writer *writer, size_t index, struct arg_place *ret)
{
    if (!deeper(writer, true, ret))
        return false;
    strbuf_addf(&writer->key, "[%zu]", index);
    return true;
}

void arg_leave(struct arg_writer *writer, struct arg_place place)
{
    writer->depth--;
    strbuf_cut(&writer->key, place.key_size);
    strbuf_cut(&writer->flat_key, place.flat_size);
}

static uint64_t list_key(const struct arg_writer *writer)
{
    return hash_bytes(writer->key.text ? writer->key.text : "", writer->key.size);
}

uint64_t arg_list_size(const struct arg_writer *writer)
{
    bool any = writer->lists.n && writer->key.size <= LIST_KEY_MAX;
    const uint64_t *size = any ? map64_find(&writer->lists, list_key(writer)) : NULL;
    return size ? *size : 0;
}

void arg_list_resize(struct arg_writer *writer, uint64_t n_elements)
{
    if (writer->key.size <= LIST_KEY_MAX)
        import_map_set(writer->im, &writer->lists, list_key(writer), n_elements);
}

// Notes the lists in a key: each part of the key before an index.
static void lists_note(struct arg_writer *writer, const char *key)
{
    for (const char *at = key; (at = strchr(at, '[')); at++) {
        size_t size = (size_t)(at - key);
        uint64_t n_elements = strtoull(at + 1, NULL, 10) + 1;
        bool is_new;
        uint64_t *known = size > LIST_KEY_MAX ? NULL
                                              : import_map_get(writer->im, &writer->lists,
                                                               hash_bytes(key, size), 0, &is_new);
        if (!known)
            return;
        if (*known < n_elements)
            *known = n_elements;
    }
}

void arg_lists_continue(struct arg_writer *writer, const struct arg_vec *args)
{
    for (size_t i = 0; i < args->n; i++)
        lists_note(writer, args->items[i].key);
}

void arg_put(struct arg_writer *writer, struct arg value)
{
    writer->key_bytes += writer->key.size;
    if (writer->args->n >= ARGS_MAX || writer->key_bytes > KEY_BYTES_MAX) {
        writer->is_cut = true;
        return;
    }
    struct strset *strings = &writer->im->strings;
    const char *key = writer->key.text ? writer->key.text : "";
    const char *flat = writer->flat_key.text ? writer->flat_key.text : "";
    value.key = strset_text(strings, strset_add(strings, key, writer->key.size));
    if (!str_eq(key, flat))
        value.flat_key = strset_text(strings, strset_add(strings, flat, writer->flat_key.size));
    if (!value.key || writer->key.failed || writer->flat_key.failed ||
        arg_vec_push(writer->args, value) < 0)
        import_fail(writer->im, -ENOMEM);
}

void arg_put_text(struct arg_writer *writer, const void *text, size_t size)
{
    arg_put(writer, arg_text(NULL, text, size));
}

void base64_add(struct strbuf *text, const void *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *from = bytes;
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)from[i] << 16;
        bits |= n > 1 ? (uint32_t)from[i + 1] << 8 : 0;
        bits |= n > 2 ? from[i + 2] : 0;
        for (size_t k = 0; k < 4; k++)
            strbuf_add_char(text, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

void arg_put_base64(struct arg_writer *writer, const void *bytes, size_t size)
{
    struct strbuf text = {0};
    base64_add(&text, bytes, size);
    struct strset *strings = &writer->im->strings;
    uint32_t id = strset_add(strings, text.text ? text.text : "", text.size);
    if (text.failed)
        import_fail(writer->im, -ENOMEM);
    arg_put(writer, arg_text(NULL, strset_text(strings, id), id == STRSET_NONE ? 0 : text.size));
    strbuf_done(&text);
}

void arg_writer_done(struct arg_writer *writer)
{
    strbuf_done(&writer->key);
    strbuf_done(&writer->flat_key);
    map64_done(&writer->lists);
}

// Returns the text of an entry. All interned texts have the form of an InternedString.
static struct wire_field text_of(const struct interned *entry)
{
    struct wire_field whole = interned_message(entry);
    return message_field(wire_sub(&whole), PB_InternedString_str);
}

uint32_t interned_text_id(struct import *im, struct interned *entry)
{
    if (!entry->made) {
        struct wire_field text = text_of(entry);
        uint32_t id = STRSET_NONE;
        if (field_present(&text))
            id = import_keep(im, &text);
        entry->made = (int64_t)id + 1;
    }
    return (uint32_t)(entry->made - 1);
}

bool interned_text(const struct generation *state, uint32_t table, uint64_t iid,
                   struct wire_field *ret)
{
    const struct interned *entry = generation_find(state, table, iid);
    if (entry)
        *ret = text_of(entry);
    return entry != NULL;
}
