// SPDX-License-Identifier: Apache-2.0
//
// Writes a message of a described type as args. The key of a field begins with the names of the
// outer fields and has an index if the field is repeated. A message without fields becomes null, so
// the message stays visible.
#include "common/cleanup.h"
#include "converter/decode/message.h"
#include "converter/import/arg_writer.h"
#include "converter/import/descriptors.h"
#include "protos/fields.h"

static const char debug_annotation[] = ".perfetto.protos.DebugAnnotation";

static enum wire_type wire_type_of(uint8_t type)
{
    switch ((uint8_t)type) {
    case PB_TYPE_DOUBLE:
    case PB_TYPE_FIXED64:
    case PB_TYPE_SFIXED64:
        return WIRE_FIXED64;
    case PB_TYPE_FLOAT:
    case PB_TYPE_FIXED32:
    case PB_TYPE_SFIXED32:
        return WIRE_FIXED32;
    case PB_TYPE_STRING:
    case PB_TYPE_BYTES:
    case PB_TYPE_MESSAGE:
    case PB_TYPE_GROUP:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

static void enum_put(struct arg_writer *writer, const struct described_field *type, int32_t value)
{
    struct import *im = writer->im;
    uint32_t name = descriptors_value_name(im, descriptors_type_of(im, type), value);
    if (name == STRSET_NONE)
        arg_put(writer, arg_int(NULL, value));
    else
        arg_put_text(writer, im->strings.entries[name].text, im->strings.entries[name].size);
}

static void number_put(struct arg_writer *writer, const struct described_field *type,
                       uint64_t value)
{
    switch ((uint8_t)type->type) {
    case PB_TYPE_DOUBLE:
        arg_put(writer, arg_real(NULL, wire_to_double(value)));
        break;
    case PB_TYPE_FLOAT:
        arg_put(writer, arg_real(NULL, (double)wire_to_float(value)));
        break;
    case PB_TYPE_UINT64:
    case PB_TYPE_FIXED64:
        arg_put(writer, arg_uint(NULL, value));
        break;
    case PB_TYPE_UINT32:
    case PB_TYPE_FIXED32:
        arg_put(writer, arg_uint(NULL, (uint32_t)value));
        break;
    case PB_TYPE_BOOL:
        arg_put(writer, arg_bool(NULL, value != 0));
        break;
    case PB_TYPE_ENUM:
        enum_put(writer, type, (int32_t)value);
        break;
    case PB_TYPE_SINT32:
        arg_put(writer, arg_int(NULL, (int32_t)wire_unzigzag((uint32_t)value)));
        break;
    case PB_TYPE_SINT64:
        arg_put(writer, arg_int(NULL, wire_unzigzag(value)));
        break;
    case PB_TYPE_INT32:
    case PB_TYPE_SFIXED32:
        arg_put(writer, arg_int(NULL, (int32_t)value));
        break;
    default:
        arg_put(writer, arg_int(NULL, (int64_t)value));
        break;
    }
}

static void message_put(struct arg_writer *writer, const struct described_field *type,
                        const struct wire_field *field)
{
    const struct import *im = writer->im;
    uint32_t number = descriptors_type_of(im, type);
    if (number == TYPE_NONE)
        writer->failed = true;
    else
        message_args_read(writer, number, wire_sub(field), NULL);
}

static bool is_debug_annotation(const struct import *im, const struct described_field *type)
{
    return type->type == PB_TYPE_MESSAGE && type->type_name != STRSET_NONE &&
           str_eq(im->strings.entries[type->type_name].text, debug_annotation);
}

// Writes a value of a field; `index` is the value's place in a repeated field.
static void value_put(struct arg_writer *writer, const struct described_field *type, size_t index,
                      const struct wire_field *field, uint64_t number)
{
    const struct strset_entry *name = &writer->im->strings.entries[type->name];
    struct arg_place place, element;
    if (!arg_enter(writer, (struct text){name->text, name->size}, &place))
        return;
    if (writer->left_out && str_eq(writer->key.text ? writer->key.text : "", writer->left_out)) {
        arg_leave(writer, place);
        return;
    }
    bool entered = !type->repeated || arg_enter_element(writer, index, &element);
    if (entered && type->type == PB_TYPE_MESSAGE)
        message_put(writer, type, field);
    else if (entered && type->type == PB_TYPE_STRING)
        arg_put_text(writer, field->data, field->size);
    else if (entered && type->type == PB_TYPE_BYTES)
        arg_put_base64(writer, field->data, field->size);
    else if (entered)
        number_put(writer, type, number);
    if (entered && type->repeated)
        arg_leave(writer, element);
    arg_leave(writer, place);
}

static void field_put(struct arg_writer *writer, const struct described_field *type,
                      struct map64 *counts, const struct wire_field *field)
{
    bool is_new;
    uint64_t *count = map64_get_or_add(counts, field->number, 0, &is_new);
    if (!count)
        return;
    enum wire_type wire_type = wire_type_of(type->type);
    if (is_debug_annotation(writer->im, type)) { // a DebugAnnotation has its own name
        debug_annotation_read(writer, field);
        return;
    }
    if (wire_type == WIRE_BYTES || field->type == wire_type) {
        if (field->type == wire_type && type->type != PB_TYPE_GROUP)
            value_put(writer, type, (*count)++, field, field->value);
        else
            writer->failed = true;
        return;
    }
    if (!type->repeated || field->type != WIRE_BYTES) {
        writer->failed = true;
        return;
    }
    struct wire_packed packed = {0};
    uint64_t value;
    while (!writer->is_cut && wire_packed_next(&packed, field, wire_type, &value))
        value_put(writer, type, (*count)++, field, value);
}

void message_args_read(struct arg_writer *writer, uint32_t type, struct wire_reader message,
                       bool (*wanted)(uint32_t number))
{
    CLEANUP(map64_done) struct map64 counts = {0};
    struct wire_field field;
    bool is_empty = true;
    while (!writer->is_cut && wire_next(&message, &field)) {
        is_empty = false;
        const struct described_field *found = descriptors_field(writer->im, type, field.number);
        if (!found) {
            stats_add(&writer->im->stats, STAT_unknown_extension_fields, 1);
            continue;
        }
        if (wanted && !found->is_extension && !wanted(field.number))
            continue;
        field_put(writer, found, &counts, &field);
    }
    writer->failed |= message.error;
    if (is_empty && !wanted)
        arg_put(writer, (struct arg){.type = ARG_NULL});
}
