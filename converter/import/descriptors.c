// SPDX-License-Identifier: Apache-2.0
//
// Names are kept in the conversion's strings, everything else in three maps: files, messages and
// extensions may come in any order. A few bytes of gzip can hold a description of any size, and a
// full name repeats the names of the outer types. The size of all sets and the length of names are
// limited.
#include "converter/import/descriptors.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/str.h"
#include "converter/decode/message.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define NESTING_MAX   16
#define FULL_NAME_MAX 4096        // bytes
#define INFLATED_MAX  (16u << 20) // bytes of a set of descriptions
#define READ_MAX      (64u << 20) // bytes of all sets

extern const unsigned char track_event_descriptors[];
extern const size_t track_event_descriptors_size;

extern const struct importer importer_extension_descriptor;

static struct descriptors *descriptors_of(const struct import *im)
{
    return importer_state(im, &importer_extension_descriptor);
}

static uint32_t type_get(struct import *im, uint32_t name)
{
    struct descriptors *all = descriptors_of(im);
    bool is_new;
    const uint64_t *type = import_map_get(im, &all->types, name, all->n_types, &is_new);
    if (!type)
        return TYPE_NONE;
    all->n_types += is_new;
    return (uint32_t)*type;
}

// Returns the id of a full name in strings. Full names begin with a dot, which the function adds if
// the dot is missing.
static uint32_t full_name(struct import *im, const struct wire_field *name)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (!name->size || *name->data != '.')
        strbuf_add_char(&text, '.');
    strbuf_add(&text, field_text(name), name->size);
    return import_strbuf_keep(im, &text);
}

static void field_add(struct import *im, uint32_t type, const struct wire_field *message,
                      bool is_extension)
{
    struct descriptors *all = descriptors_of(im);
    MESSAGE(part, FieldDescriptorProto, message);
    uint64_t number = field_u64(&part.number);
    uint64_t kind = field_u64(&part.type);
    if (is_extension)
        type = type_get(im, full_name(im, &part.extendee));
    if (type == TYPE_NONE || !number || number > UINT32_MAX || !kind || kind > PB_TYPE_SINT64)
        return;
    bool is_new;
    const uint64_t *index =
        map64_get_or_add(&all->fields, (uint64_t)type << 32 | number, all->items.n, &is_new);
    struct described_field field = {
        .name = import_keep(im, &part.name),
        .type_name = part.type_name.size ? full_name(im, &part.type_name) : STRSET_NONE,
        .type = (uint8_t)kind,
        .repeated = field_u64(&part.label) == PB_LABEL_REPEATED,
        .is_extension = is_extension,
    };
    if (!index || (is_new && described_field_vec_push(&all->items, field) < 0))
        import_fail(im, -ENOMEM);
}

static bool enum_add(struct import *im, const struct strbuf *scope,
                     const struct wire_field *message)
{
    struct descriptors *all = descriptors_of(im);
    MESSAGE(head, EnumDescriptorProto, message);
    const struct wire_field *name = &head.name;
    if (scope->size + name->size > FULL_NAME_MAX)
        return false;
    CLEANUP(strbuf_done) struct strbuf full = {0};
    strbuf_add(&full, scope->text ? scope->text : "", scope->size);
    strbuf_add_char(&full, '.');
    strbuf_add(&full, field_text(name), name->size);
    uint32_t type = type_get(im, import_strbuf_keep(im, &full));
    struct fields each = fields_of(message, PB_EnumDescriptorProto_value);
    while (fields_next(&each)) {
        MESSAGE(value, EnumValueDescriptorProto, &each.field);
        const struct wire_field *text = &value.name;
        uint32_t number = (uint32_t)field_u64(&value.number);
        bool is_new;
        import_map_get(im, &all->values, (uint64_t)type << 32 | number, import_keep(im, text),
                       &is_new);
    }
    return !each.reader.error;
}

static bool message_add(struct import *im, struct strbuf *scope, const struct wire_field *message,
                        unsigned depth)
{
    MESSAGE(head, DescriptorProto, message);
    const struct wire_field *name = &head.name;
    size_t scope_size = scope->size;
    if (scope_size + name->size > FULL_NAME_MAX)
        return false;
    strbuf_add_char(scope, '.');
    strbuf_add(scope, field_text(name), name->size);
    uint32_t type = type_get(im, strset_add(&im->strings, scope->text, scope->size));
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    bool whole = true;
    wire_foreach(&reader, &field) {
        if (field.number == PB_DescriptorProto_field)
            field_add(im, type, &field, false);
        else if (field.number == PB_DescriptorProto_extension)
            field_add(im, type, &field, true);
        else if (field.number == PB_DescriptorProto_enum_type)
            whole &= enum_add(im, scope, &field);
        else if (field.number == PB_DescriptorProto_nested_type)
            whole &= depth < NESTING_MAX && message_add(im, scope, &field, depth + 1);
    }
    if (scope->text) {
        scope->size = scope_size;
        scope->text[scope_size] = '\0';
    }
    return whole && !reader.error;
}

static bool file_add(struct import *im, const struct wire_field *file)
{
    MESSAGE(head, FileDescriptorProto, file);
    const struct wire_field *package = &head.package;
    CLEANUP(strbuf_done) struct strbuf scope = {0};
    if (package->size > FULL_NAME_MAX)
        return false;
    if (package->size) {
        strbuf_add_char(&scope, '.');
        strbuf_add(&scope, package->data, package->size);
    }
    struct wire_reader reader = wire_sub(file);
    struct wire_field field;
    bool whole = true;
    wire_foreach(&reader, &field) {
        if (field.number == PB_FileDescriptorProto_message_type)
            whole &= message_add(im, &scope, &field, 0);
        else if (field.number == PB_FileDescriptorProto_enum_type)
            whole &= enum_add(im, &scope, &field);
        else if (field.number == PB_FileDescriptorProto_extension)
            field_add(im, TYPE_NONE, &field, true);
    }
    return whole && !reader.error;
}

// Adds a FileDescriptorSet. Known types and fields stay. False: the set is damaged or exceeds a
// limit.
static bool descriptors_add(struct import *im, struct wire_reader set)
{
    struct wire_field field;
    bool whole = true;
    descriptors_of(im)->read_bytes += (uint64_t)(set.end - set.pos);
    if (descriptors_of(im)->read_bytes > READ_MAX)
        return false;
    wire_foreach(&set, &field) {
        if (field.number == PB_FileDescriptorSet_file)
            whole &= file_add(im, &field);
    }
    return whole && !set.error;
}

// Adds the built-in types of track events.
static void descriptors_start(struct import *im, void *state)
{
    (void)state;
    descriptors_add(im, wire_reader_over(track_event_descriptors, track_event_descriptors_size));
}

static uint32_t type_named(const struct import *im, uint32_t name)
{
    return name == STRSET_NONE ? TYPE_NONE : (uint32_t)map_number(&descriptors_of(im)->types, name);
}

uint32_t descriptors_find(const struct import *im, const char *name, size_t size)
{
    return type_named(im, strset_find(&im->strings, name, size));
}

uint32_t descriptors_type_of(const struct import *im, const struct described_field *field)
{
    return type_named(im, field->type_name);
}

const struct described_field *descriptors_field(const struct import *im, uint32_t type,
                                                uint32_t number)
{
    const uint64_t *index = map64_find(&descriptors_of(im)->fields, (uint64_t)type << 32 | number);
    return index ? &descriptors_of(im)->items.items[*index] : NULL;
}

uint32_t descriptors_value_name(const struct import *im, uint32_t type, int32_t value)
{
    return (uint32_t)map_number(&descriptors_of(im)->values,
                                (uint64_t)type << 32 | (uint32_t)value);
}

static void descriptors_done(void *state)
{
    struct descriptors *descriptors = state;
    map64_done(&descriptors->types);
    map64_done(&descriptors->fields);
    map64_done(&descriptors->values);
    described_field_vec_done(&descriptors->items);
}

// Inflates the set of a gzip stream; the caller frees it. NULL: the stream is damaged or too large.
// *ret_size: the number of inflated bytes, also if the result is NULL.
static uint8_t *set_inflate(const struct wire_field *field, size_t *ret_size)
{
    uint8_t *set = memory_malloc(INFLATED_MAX);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)field->data, .avail_in = (uInt)field->size};
    if (!set || inflateInit2(&z, 15 + 32) != Z_OK) {
        free(set);
        return NULL;
    }
    z.next_out = set;
    z.avail_out = INFLATED_MAX;
    int code = inflate(&z, Z_FINISH);
    *ret_size = INFLATED_MAX - z.avail_out;
    inflateEnd(&z);
    if (code == Z_STREAM_END)
        return set;
    free(set);
    return NULL;
}

// Descriptions are read in file order, because events may come before the description of their
// fields.
static void extension_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, ExtensionDescriptor, packet->message);
    const struct wire_field *zipped = &part.extension_set_gzip;
    struct wire_reader set = wire_sub(&part.extension_set);
    size_t size = 0;
    uint8_t *inflated = field_present(zipped) && descriptors_of(im)->read_bytes < READ_MAX
                            ? set_inflate(zipped, &size)
                            : NULL;
    if (inflated)
        set = wire_reader_over(inflated, size);
    else
        descriptors_of(im)->read_bytes += size;
    bool whole = (!field_present(zipped) || inflated) && descriptors_add(im, set);
    free(inflated);
    if (!whole)
        stats_add(&im->stats, STAT_mmsql_extension_descriptors_damaged, 1);
}

const struct importer importer_extension_descriptor = {
    .field = PB_TracePacket_extension_descriptor,
    .now = extension_now,
    .state_size = sizeof(struct descriptors),
    .of_all_machines = true,
    .start = descriptors_start,
    .done = descriptors_done,
};
