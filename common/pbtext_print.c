// SPDX-License-Identifier: Apache-2.0
//
// The printer of pbtext.h. Its text parses back into an equal message, except for enum numbers
// without a name, which the parser refuses. Only fields that are set are printed, in the order of
// their numbers.
//
// Printable UTF-8 characters in a string field are printed unchanged. Every other byte becomes an
// octal escape. Unlike a hexadecimal escape, an octal escape does not take in a following digit.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/pbtext.h"
#include "common/pbtext_field.h"

static void print_fields(const ProtobufCMessage *message, unsigned depth, struct strbuf *out);

static void print_quoted(const uint8_t *bytes, size_t size, bool is_text, struct strbuf *out)
{
    const char *p = (const char *)bytes, *end = p + size;
    strbuf_add_char(out, '"');
    while (p < end) {
        uint32_t c = 0;
        size_t length = str_utf8_decode(p, end, &c);
        static const char special[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
        const char *found = length == 1 && c ? strchr(special, (int)c) : NULL;
        if (found) {
            strbuf_addf(out, "\\%c", letters[found - special]);
        } else if ((c >= 0x20 && c < 0x7f) || (is_text && length && c >= 0xa0)) {
            strbuf_add(out, p, length);
        } else {
            length = 1;
            strbuf_addf(out, "\\%03o", (unsigned char)*p);
        }
        p += length;
    }
    strbuf_add_char(out, '"');
}

// Prints the shortest decimal with at least 6 (float) or 15 digits that reads back as `value`.
static void print_real(double value, bool is_float, struct strbuf *out)
{
    char text[40];
    if (isnan(value)) {
        strbuf_add_str(out, "nan");
    } else if (isinf(value)) {
        strbuf_add_str(out, value < 0 ? "-inf" : "inf");
    } else {
        for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
            snprintf(text, sizeof(text), "%.*g", digits, value);
            double back = strtod(text, NULL);
            if (is_float ? (float)back == (float)value : back == value)
                break;
        }
        strbuf_add_str(out, text);
    }
}

static void print_enum(const ProtobufCEnumDescriptor *type, int32_t number, struct strbuf *out)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);
    if (value)
        strbuf_add_str(out, value->name);
    else
        strbuf_addf(out, "%" PRId32, number);
}

static void print_scalar(const ProtobufCFieldDescriptor *field, const void *member,
                         struct strbuf *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        strbuf_addf(out, "%" PRId32, *(const int32_t *)member);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        strbuf_addf(out, "%" PRIu32, *(const uint32_t *)member);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        strbuf_addf(out, "%" PRId64, *(const int64_t *)member);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        strbuf_addf(out, "%" PRIu64, *(const uint64_t *)member);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        print_real((double)*(const float *)member, true, out);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        print_real(*(const double *)member, false, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        strbuf_add_str(out, *(const protobuf_c_boolean *)member ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        print_enum(field->descriptor, *(const int32_t *)member, out);
        break;
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)member;
        print_quoted((const uint8_t *)text, text ? strlen(text) : 0, true, out);
        break;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = member;
        print_quoted(bytes->data, bytes->len, false, out);
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
}

static void print_field(const ProtobufCFieldDescriptor *field, const void *member, unsigned depth,
                        struct strbuf *out)
{
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    const ProtobufCMessage *inner = is_message ? *(ProtobufCMessage *const *)member : NULL;
    if (is_message && (!inner || depth == PBTEXT_DEPTH_MAX))
        return;
    strbuf_addf(out, "%*s%s", (int)depth * 2, "", field->name);
    if (is_message) {
        strbuf_add_str(out, " {\n");
        print_fields(inner, depth + 1, out);
        strbuf_addf(out, "%*s}\n", (int)depth * 2, "");
    } else {
        strbuf_add_str(out, ": ");
        print_scalar(field, member, out);
        strbuf_add_char(out, '\n');
    }
}

// Returns whether a single field was set.
static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message;
    const void *member = base + field->offset, *quantifier = base + field->quantifier_offset;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)quantifier == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REQUIRED)
        return true;
    if (field->label == PROTOBUF_C_LABEL_NONE)
        return pbtext_holds_something(field, member);
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = *(char *const *)member;
        return text && text != field->default_value;
    }
    return *(const protobuf_c_boolean *)quantifier;
}

static void print_fields(const ProtobufCMessage *message, unsigned depth, struct strbuf *out)
{
    for (unsigned i = 0; i < message->descriptor->n_fields && !out->failed; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *member = (const char *)message + field->offset;
        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            if (is_present(message, field))
                print_field(field, member, depth, out);
            continue;
        }
        size_t n = *(const size_t *)((const char *)message + field->quantifier_offset);
        const char *items = *(char *const *)member;
        for (size_t j = 0; j < n; j++)
            print_field(field, items + j * pbtext_field_size(field->type), depth, out);
    }
}

void pbtext_print(const ProtobufCMessage *message, struct strbuf *out)
{
    print_fields(message, 0, out);
}
