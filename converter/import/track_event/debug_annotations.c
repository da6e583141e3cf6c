// SPDX-License-Identifier: Apache-2.0
//
// A debug annotation is a value, a dictionary or list of annotations, or a message of a described
// type. Elements without a value leave no gap in the indexes of a list. A list goes on when its
// name appears again in the event.
#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"
#include "converter/decode/message.h"
#include "converter/import/arg_writer.h"
#include "converter/import/descriptors.h"
#include "converter/import/track_event/json_args.h"
#include "protos/fields.h"

// Enters a name, with underscores for dots and brackets. False: arg_enter() fails, or memory ran
// out.
static bool name_enter(struct arg_writer *writer, const struct wire_field *name,
                       struct arg_place *ret)
{
    char *clean = memory_malloc(name->size + 1);
    if (!clean) {
        import_fail(writer->im, -ENOMEM);
        return false;
    }
    for (size_t i = 0; i < name->size; i++)
        clean[i] = strchr(".[]", name->data[i]) && name->data[i] ? '_' : (char)name->data[i];
    bool entered = arg_enter(writer, (struct text){clean, name->size}, ret);
    free(clean);
    return entered;
}

static bool annotation_enter(struct arg_writer *writer, const struct wire_field *annotation,
                             struct arg_place *ret)
{
    MESSAGE(part, DebugAnnotation, annotation);
    struct wire_field name = part.name;
    bool known = field_u64(&part.name_iid)
                     ? interned_text(writer->state, PB_InternedData_debug_annotation_names,
                                     field_u64(&part.name_iid), &name)
                     : field_present(&name);
    writer->failed |= !known;
    return known && name_enter(writer, &name, ret);
}

// Reads the elements of the current list: the fields `number` of `message`. False: no elements.
static bool list_read(struct arg_writer *writer, const struct wire_field *message, uint32_t number,
                      void (*read)(struct arg_writer *writer, const struct wire_field *element))
{
    struct fields each = fields_of(message, number);
    uint64_t n_before = 0, n_elements = 0;
    bool found = false;
    while (!writer->is_cut && fields_next(&each)) {
        struct arg_place place;
        if (!found)
            n_before = n_elements = arg_list_size(writer);
        found = true;
        if (!arg_enter_element(writer, n_elements, &place))
            break;
        size_t n_args = writer->args->n;
        read(writer, &each.field);
        n_elements += writer->args->n > n_args;
        arg_leave(writer, place);
    }
    if (n_elements > n_before)
        arg_list_resize(writer, n_elements);
    return found;
}

static bool dict_read(struct arg_writer *writer, const struct wire_field *annotation)
{
    struct fields each = fields_of(annotation, PB_DebugAnnotation_dict_entries);
    bool found = false;
    for (; !writer->is_cut && fields_next(&each); found = true)
        debug_annotation_read(writer, &each.field);
    return found;
}

static void nested_read(struct arg_writer *writer, const struct wire_field *message);

static void nested_dict(struct arg_writer *writer, const struct wire_field *message)
{
    struct fields keys = fields_of(message, PB_DebugAnnotation_NestedValue_dict_keys);
    struct fields values = fields_of(message, PB_DebugAnnotation_NestedValue_dict_values);
    for (;;) {
        bool has_key = fields_next(&keys), has_value = fields_next(&values);
        writer->failed |= has_key != has_value;
        struct arg_place place;
        if (!has_key || !has_value || writer->is_cut)
            return;
        if (name_enter(writer, &keys.field, &place)) {
            nested_read(writer, &values.field);
            arg_leave(writer, place);
        }
    }
}

// Reads the older form of dictionaries and lists.
static void nested_read(struct arg_writer *writer, const struct wire_field *message)
{
    MESSAGE(part, DebugAnnotation_NestedValue, message);
    uint64_t type = field_u64(&part.nested_type);
    const struct wire_field *text = &part.string_value;
    if (type == PB_DICT)
        nested_dict(writer, message);
    else if (type == PB_ARRAY)
        list_read(writer, message, PB_DebugAnnotation_NestedValue_array_values, nested_read);
    else if (field_present(&part.bool_value))
        arg_put(writer, arg_bool(NULL, field_u64(&part.bool_value) != 0));
    else if (field_present(&part.int_value))
        arg_put(writer, arg_int(NULL, field_i64(&part.int_value)));
    else if (field_present(&part.double_value))
        arg_put(writer, arg_real(NULL, field_double(&part.double_value)));
    else if (field_present(text))
        arg_put_text(writer, text->data, text->size);
}

static void proto_read(struct arg_writer *writer, const union message_DebugAnnotation *part)
{
    struct wire_field name = part->proto_type_name;
    const struct wire_field *value = &part->proto_value;
    if (!field_present(&name) && field_present(&part->proto_type_name_iid))
        interned_text(writer->state, PB_InternedData_debug_annotation_value_type_names,
                      field_u64(&part->proto_type_name_iid), &name);
    uint32_t type = descriptors_find(writer->im, field_text(&name), name.size);
    if (type != TYPE_NONE) {
        message_args_read(writer, type, wire_sub(value), NULL);
    } else { // not described: the arg gets the bytes of the message
        writer->failed = true;
        arg_put_base64(writer, value->data, value->size);
    }
}

// Writes the value of a DebugAnnotation. The caller has entered the annotation's name.
static void debug_value_read(struct arg_writer *writer, const struct wire_field *annotation)
{
    if (dict_read(writer, annotation) ||
        list_read(writer, annotation, PB_DebugAnnotation_array_values, debug_value_read))
        return;
    MESSAGE(part, DebugAnnotation, annotation);
    const struct wire_field *value;
    struct wire_field text;
    if (field_present(value = &part.bool_value))
        arg_put(writer, arg_bool(NULL, field_u64(value) != 0));
    else if (field_present(value = &part.uint_value))
        arg_put(writer, arg_uint(NULL, field_u64(value)));
    else if (field_present(value = &part.int_value))
        arg_put(writer, arg_int(NULL, field_i64(value)));
    else if (field_present(value = &part.double_value))
        arg_put(writer, arg_real(NULL, field_double(value)));
    else if (field_present(value = &part.string_value))
        arg_put_text(writer, value->data, value->size);
    else if (field_present(value = &part.string_value_iid)) {
        if (interned_text(writer->state, PB_InternedData_debug_annotation_string_values,
                          field_u64(value), &text))
            arg_put_text(writer, text.data, text.size);
        else
            writer->failed = true;
    } else if (field_present(value = &part.pointer_value))
        arg_put(writer, (struct arg){.integer = field_i64(value), .type = ARG_POINTER});
    else if (field_present(value = &part.legacy_json_value))
        json_args_read(writer, value->data, value->size);
    else if (field_present(&part.proto_value))
        proto_read(writer, &part);
    else if (field_present(value = &part.nested_value))
        nested_read(writer, value);
}

void debug_annotation_read(struct arg_writer *writer, const struct wire_field *annotation)
{
    struct arg_place place;
    if (!annotation_enter(writer, annotation, &place))
        return;
    debug_value_read(writer, annotation);
    arg_leave(writer, place);
}
