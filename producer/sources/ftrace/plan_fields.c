// SPDX-License-Identifier: Apache-2.0
//
// The kernel writes C declarations, not types: "field:pid_t next_pid", "field:__data_loc char[]
// name". The start of the declaration says whether a field is a pid, a device or a function; size
// and sign say the rest. The rules are those of Perfetto's producer, because a number must mean the
// same in the traces of both producers. Some fields that Perfetto drops (sign or width differ from
// its schema, arrays of numbers) are carried here if no data are lost.
#include "producer/sources/ftrace/plan_fields.h"

#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "common/text.h"

static enum plan_kind integer_kind(size_t size, bool is_signed)
{
    switch (size) {
    case 1:
        return is_signed ? PLAN_S8 : PLAN_U8;
    case 2:
        return is_signed ? PLAN_S16 : PLAN_U16;
    case 4:
        return is_signed ? PLAN_S32 : PLAN_U32;
    case 8:
        return PLAN_64;
    default:
        return PLAN_NONE;
    }
}

// Returns the bytes of one element of a `type`; 1 for bytes and for unknown types.
static uint8_t element_size_of(const char *type, size_t length, size_t long_size)
{
    static const struct {
        const char *name;
        uint8_t size; // 0: the size of a long
    } sizes[] = {
        {"short", 2},       {"unsigned short", 2},
        {"u16", 2},         {"__u16", 2},
        {"s16", 2},         {"uint16_t", 2},
        {"__le16", 2},      {"__be16", 2},
        {"int", 4},         {"unsigned int", 4},
        {"unsigned", 4},    {"u32", 4},
        {"__u32", 4},       {"s32", 4},
        {"__s32", 4},       {"uint32_t", 4},
        {"int32_t", 4},     {"__le32", 4},
        {"__be32", 4},      {"pid_t", 4},
        {"long", 0},        {"unsigned long", 0},
        {"size_t", 0},      {"cpumask_t", 0},
        {"u64", 8},         {"__u64", 8},
        {"s64", 8},         {"__s64", 8},
        {"uint64_t", 8},    {"int64_t", 8},
        {"__le64", 8},      {"__be64", 8},
        {"long long", 8},   {"dma_addr_t", 8},
        {"sector_t", 8},    {"loff_t", 8},
        {"phys_addr_t", 8}, {"unsigned long long", 8},
    };
    for (size_t i = 0; i < ELEMENTS(sizes); i++)
        if (strlen(sizes[i].name) == length && memcmp(sizes[i].name, type, length) == 0)
            return sizes[i].size ? sizes[i].size : (uint8_t)long_size;
    return 1;
}

// For "__data_loc TYPE[]" and "__rel_loc TYPE[]"; `type` begins after the first word.
static struct plan_field located_field(const struct format_field *field, const char *type,
                                       bool relative, size_t long_size)
{
    struct plan_field ret = {.kind = PLAN_NONE, .is_signed = field->is_signed};
    if (field->size != 4)
        return ret;
    const char *bracket = strchr(type, '[');
    size_t length = bracket ? (size_t)(bracket - type) : strlen(type);
    while (length && type[length - 1] == ' ')
        length--;
    if (text_eq((struct text){type, length}, TEXT("char"))) {
        ret.kind = relative ? PLAN_REL_TEXT : PLAN_LOC_TEXT;
        return ret;
    }
    ret.element_size = element_size_of(type, length, long_size);
    if (ret.element_size == 1)
        ret.kind = relative ? PLAN_REL_BYTES : PLAN_LOC_BYTES;
    else
        ret.kind = relative ? PLAN_REL_ELEMENTS : PLAN_LOC_ELEMENTS;
    return ret;
}

static struct plan_field array_field(const struct format_field *field, size_t long_size)
{
    struct plan_field ret = {.is_signed = field->is_signed};
    bool rest = field->size == 0;
    if (str_eq(field->type, "char")) {
        ret.kind = rest ? PLAN_REST_TEXT : field->size == 16 ? PLAN_TEXT16 : PLAN_TEXT;
        return ret;
    }
    size_t size = field->n_elements && field->size % field->n_elements == 0
                      ? (size_t)(field->size / field->n_elements)
                      : element_size_of(field->type, strlen(field->type), long_size);
    if (size == 2 || size == 4 || size == 8) {
        ret.element_size = (uint8_t)size;
        ret.kind = rest ? PLAN_REST_ELEMENTS : PLAN_ELEMENTS;
    } else {
        ret.kind = rest ? PLAN_REST_BYTES : PLAN_BYTES;
    }
    return ret;
}

static bool is_text_pointer(const char *type)
{
    return str_ends_with(type, "char *") || str_ends_with(type, "char*");
}

struct plan_field plan_field_of(const struct format_field *field, size_t long_size)
{
    const char *type = field->type;
    bool wide = field->size == 8;
    if (str_starts_with(type, "__data_loc "))
        return located_field(field, type + strlen("__data_loc "), false, long_size);
    if (str_starts_with(type, "__rel_loc "))
        return located_field(field, type + strlen("__rel_loc "), true, long_size);
    if (field->is_array)
        return array_field(field, long_size);
    if (str_eq(type, "char") && field->size == 0)
        return (struct plan_field){.kind = PLAN_REST_TEXT};
    enum plan_kind kind = integer_kind(field->size, field->is_signed);
    if (field->size == 4 || wide) {
        if (is_text_pointer(type))
            kind = wide ? PLAN_POINTED64 : PLAN_POINTED32;
        else if (str_starts_with(type, "void*") || str_starts_with(type, "void *"))
            kind = wide ? PLAN_SYMBOL64 : PLAN_SYMBOL32;
        else if (str_eq(type, "dev_t"))
            kind = wide ? PLAN_DEV64 : PLAN_DEV32;
        else if (str_eq(type, "pid_t") && !wide)
            kind = PLAN_PID32;
    } else if (str_eq(type, "bool") && field->size == 1) {
        kind = PLAN_BOOL;
    }
    if (kind == PLAN_NONE && field->size)
        kind = PLAN_BYTES; // a struct
    return (struct plan_field){.kind = kind, .is_signed = field->is_signed};
}

static struct plan_field none(void)
{
    return (struct plan_field){.kind = PLAN_NONE};
}

static struct plan_field number_for(const struct format_field *field, struct plan_field found,
                                    const struct ftrace_field_type *type)
{
    if (type->repeated)
        return plan_kind_is_repeated(found.kind) ? found : none();
    if (type->bits == 1)
        return field->size == 1 ? (struct plan_field){.kind = PLAN_BOOL} : none();
    // Small arrays that are a number in the schema ("__u8 saddr[4]").
    if (found.kind == PLAN_BYTES || found.kind == PLAN_ELEMENTS)
        found.kind = integer_kind(field->size, field->is_signed);
    if (plan_kind_is_text(found.kind) || plan_kind_is_bytes(found.kind) ||
        plan_kind_is_repeated(found.kind))
        return none();
    if (type->bits == 32) {
        if (found.kind == PLAN_64)
            found.kind = type->kind == FTRACE_KIND_UINT ? PLAN_64_AS_U32 : PLAN_64_AS_S32;
        if (found.kind == PLAN_DEV64)
            return none();
        if (found.kind == PLAN_S32 && type->kind == FTRACE_KIND_UINT)
            found.kind = PLAN_U32;
        if (found.kind == PLAN_U32 && type->kind == FTRACE_KIND_INT)
            found.kind = PLAN_S32;
    }
    return found;
}

struct plan_field plan_field_for(const struct format_field *field,
                                 const struct ftrace_field_type *type, size_t long_size)
{
    struct plan_field found = plan_field_of(field, long_size);
    switch (type->kind) {
    case FTRACE_KIND_UINT:
    case FTRACE_KIND_INT:
        return number_for(field, found, type);
    case FTRACE_KIND_STRING:
        // Dynamic arrays of types unknown to the schema are mostly texts.
        if (found.kind == PLAN_LOC_ELEMENTS)
            found.kind = PLAN_LOC_TEXT;
        return plan_kind_is_text(found.kind) ? found : none();
    case FTRACE_KIND_BYTES:
        return plan_kind_is_bytes(found.kind) ? found : none();
    default:
        return none();
    }
}

bool plan_kind_is_text(enum plan_kind kind)
{
    switch (kind) {
    case PLAN_POINTED32:
    case PLAN_POINTED64:
    case PLAN_TEXT16:
    case PLAN_TEXT:
    case PLAN_REST_TEXT:
    case PLAN_LOC_TEXT:
    case PLAN_REL_TEXT:
        return true;
    default:
        return false;
    }
}

bool plan_kind_is_bytes(enum plan_kind kind)
{
    return kind == PLAN_BYTES || kind == PLAN_REST_BYTES || kind == PLAN_LOC_BYTES ||
           kind == PLAN_REL_BYTES;
}

bool plan_kind_is_repeated(enum plan_kind kind)
{
    return kind == PLAN_ELEMENTS || kind == PLAN_REST_ELEMENTS || kind == PLAN_LOC_ELEMENTS ||
           kind == PLAN_REL_ELEMENTS;
}

bool plan_kind_is_dynamic(enum plan_kind kind)
{
    return kind >= PLAN_REST_TEXT;
}

size_t plan_kind_reads(enum plan_kind kind, size_t field_size)
{
    if (kind >= PLAN_LOC_TEXT)
        return 4;
    return plan_kind_is_dynamic(kind) ? 0 : field_size;
}
