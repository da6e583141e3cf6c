// SPDX-License-Identifier: Apache-2.0
//
// See json_values.h. Open containers stand on a stack of a fixed depth.
#include "converter/import/json/json_values.h"

#include "converter/ground/json_reader.h"
#include "converter/import/arg_writer.h"

// An open object or array
struct container {
    struct arg_place place;
    bool is_inner, is_array;
    uint64_t n_elements;
};

struct walk {
    struct arg_writer writer;
    struct json_reader reader;
    struct container open[ARG_DEPTH_MAX + 1];
    size_t n_open;
    struct json_token key;
};

static void text_put(struct walk *walk, const struct json_token *value)
{
    if (!value->has_escapes) {
        arg_put_text(&walk->writer, value->start, value->size);
        return;
    }
    struct strbuf text = {0};
    struct import *im = walk->writer.im;
    json_text_add(value, &text);
    uint32_t id = import_strbuf_keep(im, &text);
    if (id != STRSET_NONE)
        arg_put_text(&walk->writer, strset_text(&im->strings, id), text.size);
    strbuf_done(&text);
}

static void value_put(struct walk *walk, const struct json_token *value)
{
    int64_t whole;
    double real;
    if (value->type == JSON_STRING)
        text_put(walk, value);
    else if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        arg_put(&walk->writer, arg_bool(NULL, value->type == JSON_TRUE));
    else if (json_int(value, &whole))
        arg_put(&walk->writer, arg_int(NULL, whole));
    else if (json_double(value, &real))
        arg_put(&walk->writer, arg_real(NULL, real));
    else
        walk->writer.failed = true; // a number with hundreds of digits
}

// Enters the element or member of the next value. False: the nesting is too deep, or memory ran
// out.
static bool value_enter(struct walk *walk, struct arg_place *ret)
{
    struct container *in = &walk->open[walk->n_open - 1];
    if (in->is_array)
        return arg_enter_element(&walk->writer, in->n_elements++, ret);
    struct import *im = walk->writer.im;
    struct text key = {walk->key.start, walk->key.size};
    if (!walk->key.has_escapes)
        return arg_enter(&walk->writer, key, ret);
    struct strbuf text = {0};
    json_text_add(&walk->key, &text);
    bool fits = import_strbuf_whole(im, &text) &&
                arg_enter(&walk->writer, (struct text){text.text, text.size}, ret);
    strbuf_done(&text);
    return fits;
}

static void container_close(struct walk *walk)
{
    const struct container *last = &walk->open[--walk->n_open];
    if (last->is_array)
        arg_list_resize(&walk->writer, last->n_elements);
    if (last->is_inner)
        arg_leave(&walk->writer, last->place);
}

// Takes the next token of the value. False: the walk ends here.
static bool token_take(struct walk *walk, const struct json_token *token)
{
    struct container value = {.is_inner = walk->n_open > 0, .is_array = token->type == JSON_ARRAY};
    switch (token->type) {
    case JSON_KEY:
        walk->key = *token;
        return true;
    case JSON_NULL:
        return true;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        container_close(walk);
        return walk->n_open > 0;
    case JSON_END:
    case JSON_BAD:
    case JSON_CUT:
        walk->writer.failed = true;
        return false;
    default:
        break;
    }
    bool is_container = token->type == JSON_OBJECT || value.is_array;
    walk->writer.is_cut |= walk->n_open > ARG_DEPTH_MAX;
    if ((!value.is_inner && !is_container) || walk->writer.is_cut)
        return false;
    if (value.is_inner && !value_enter(walk, &value.place))
        return false;
    if (is_container) {
        value.n_elements = value.is_array ? arg_list_size(&walk->writer) : 0;
        walk->open[walk->n_open++] = value;
        return true;
    }
    value_put(walk, token);
    arg_leave(&walk->writer, value.place);
    return !walk->writer.is_cut;
}

void json_values_read(struct import *im, const struct wire_field *json,
                      const struct arg_vec *before, struct arg_vec *args)
{
    struct walk walk = {
        .writer = {.im = im, .args = args},
        .reader = json_reader_over(json->data, json->size),
    };
    struct arg_place place;
    struct json_token token;
    if (before)
        arg_lists_continue(&walk.writer, before);
    if (arg_enter(&walk.writer, TEXT("args"), &place)) {
        do
            token = json_next(&walk.reader);
        while (token_take(&walk, &token));
    }
    if (walk.writer.is_cut || walk.writer.failed)
        stats_add(&im->stats, STAT_mmsql_args_left_out, 1);
    arg_writer_done(&walk.writer);
}

bool json_members_read(const struct wire_field *json,
                       void (*take)(void *userdata, const struct json_token *key,
                                    const struct json_token *value),
                       void *userdata)
{
    struct json_reader reader = json_reader_over(json->data, json->size);
    if (json_next(&reader).type != JSON_OBJECT)
        return false;
    for (;;) {
        struct json_token key = json_next(&reader);
        if (key.type != JSON_KEY)
            return key.type == JSON_OBJECT_END;
        struct json_token value = json_next(&reader);
        if (value.type == JSON_BAD || value.type == JSON_CUT ||
            (reader.depth > 1 && !json_skip(&reader, &value)))
            return false;
        take(userdata, &key, &value);
    }
}
