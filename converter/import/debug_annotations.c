// SPDX-License-Identifier: Apache-2.0
//
// A debug annotation is a value, or values in dictionaries and lists, each of which is an
// annotation again. Nesting and size are limited, because a trace can claim any.
#include "converter/import/debug_annotations.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "protos/fields.h"

#define DEPTH_MAX 16
#define ARGS_MAX  4096 // of one event
// Keys repeat the names they are nested in: a short annotation can ask for gigabytes of them.
#define KEY_BYTES_MAX ((size_t)256 << 10)

struct walk {
    struct import *im;
    const struct generation *state;
    struct arg_vec *args;
    struct strbuf key, flat_key;
    size_t key_bytes; // of all values so far
    bool is_cut;      // some are left out
};

// The name behind `iid`; all of these messages have it in field 2. Empty if there is none.
static struct wire_field interned_text(const struct generation *state, uint32_t field, uint64_t iid)
{
    struct wire_field fields[3] = {0};
    const struct interned *interned = generation_find(state, field, iid);
    if (interned)
        message_read(wire_reader_over(interned->data, interned->size), fields, 3);
    return fields[2];
}

static void value_add(struct walk *walk, struct arg arg)
{
    walk->key_bytes += walk->key.size;
    if (walk->args->n >= ARGS_MAX || walk->key_bytes > KEY_BYTES_MAX) {
        walk->is_cut = true;
        return;
    }
    struct strset *strings = &walk->im->strings;
    const char *key = walk->key.text ? walk->key.text : "";
    const char *flat = walk->flat_key.text ? walk->flat_key.text : "";
    arg.key = strset_text(strings, strset_add(strings, key, walk->key.size));
    if (!str_eq(key, flat))
        arg.flat_key = strset_text(strings, strset_add(strings, flat, walk->flat_key.size));
    if (!arg.key || walk->key.failed)
        return;
    if (arg_vec_push(walk->args, arg) < 0)
        walk->im->track_events.failure = -ENOMEM;
}

static bool scalar_read(struct walk *walk, const struct wire_field *field)
{
    struct arg arg = {.integer = field_i64(field)};
    struct wire_field text;
    switch (field->number) {
    case PB_DebugAnnotation_bool_value:
        arg.type = ARG_BOOL;
        break;
    case PB_DebugAnnotation_uint_value:
        arg.type = ARG_UINT;
        break;
    case PB_DebugAnnotation_int_value:
        arg.type = ARG_INT;
        break;
    case PB_DebugAnnotation_pointer_value:
        arg.type = ARG_POINTER;
        break;
    case PB_DebugAnnotation_double_value:
        arg = (struct arg){.real = field_double(field), .type = ARG_REAL};
        break;
    case PB_DebugAnnotation_string_value:
        arg = arg_text(NULL, field->data, field->size);
        break;
    case PB_DebugAnnotation_legacy_json_value:
        arg = arg_text(NULL, field->data, field->size);
        arg.type = ARG_JSON;
        break;
    case PB_DebugAnnotation_string_value_iid:
        text = interned_text(walk->state, PB_InternedData_debug_annotation_string_values,
                             field_u64(field));
        arg = arg_text(NULL, text.data, text.size);
        break;
    default:
        return false;
    }
    value_add(walk, arg);
    return true;
}

static struct wire_field annotation_name(struct walk *walk, const struct wire_field *annotation)
{
    MESSAGE(part, PB_DebugAnnotation_name, annotation);
    if (field_present(&part[PB_DebugAnnotation_name_iid]))
        return interned_text(walk->state, PB_InternedData_debug_annotation_names,
                             field_u64(&part[PB_DebugAnnotation_name_iid]));
    return part[PB_DebugAnnotation_name];
}

static void strbuf_cut(struct strbuf *buf, size_t size)
{
    if (size < buf->size) {
        buf->size = size;
        buf->text[size] = '\0';
    }
}

static void annotation_walk(struct walk *walk, const struct wire_field *annotation, unsigned depth)
{
    struct wire_reader reader = wire_sub(annotation);
    struct wire_field field;
    unsigned n_array = 0;
    wire_foreach(&reader, &field) {
        if (walk->is_cut)
            return;
        if (scalar_read(walk, &field))
            continue;
        size_t key_size = walk->key.size, flat_size = walk->flat_key.size;
        if (field.number == PB_DebugAnnotation_dict_entries) {
            struct wire_field name = annotation_name(walk, &field);
            walk->is_cut |= name.size > KEY_BYTES_MAX;
            name.size = walk->is_cut ? 0 : name.size;
            strbuf_add_char(&walk->key, '.');
            strbuf_add(&walk->key, field_text(&name), name.size);
            strbuf_add_char(&walk->flat_key, '.');
            strbuf_add(&walk->flat_key, field_text(&name), name.size);
        } else if (field.number == PB_DebugAnnotation_array_values) {
            strbuf_addf(&walk->key, "[%u]", n_array++);
        } else {
            continue;
        }
        if (depth == DEPTH_MAX)
            walk->is_cut = true;
        else
            annotation_walk(walk, &field, depth + 1);
        strbuf_cut(&walk->key, key_size);
        strbuf_cut(&walk->flat_key, flat_size);
    }
}

void debug_annotation_read(struct import *im, const struct generation *state,
                           const struct wire_field *annotation, struct arg_vec *args)
{
    struct walk walk = {.im = im, .state = state, .args = args};
    struct wire_field name = annotation_name(&walk, annotation);
    strbuf_add_str(&walk.key, "debug.");
    walk.is_cut = name.size > KEY_BYTES_MAX;
    strbuf_add(&walk.key, field_text(&name), walk.is_cut ? 0 : name.size);
    strbuf_add(&walk.flat_key, walk.key.text, walk.key.size);
    annotation_walk(&walk, annotation, 0);
    if (walk.is_cut)
        stats_add(&im->stats, STAT_mmsql_debug_annotations_cut, 1);
    strbuf_done(&walk.key);
    strbuf_done(&walk.flat_key);
}
