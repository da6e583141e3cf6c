// SPDX-License-Identifier: Apache-2.0
//
// A plan is checked once, here, and needs no check while it runs: every fixed field lies within
// `record_min`, every tag is ready, and `fixed_max` + `dynamic_factor` * size limits the output.
// The limits are generous: their only cost is that a packet ends some bytes early.
//
// Plans are built in vectors and packed into one block at the end.
#include "producer/sources/ftrace/event_compile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/memory.h"
#include "common/str.h"
#include "common/vec.h"
#include "common/wire.h"
#include "producer/sources/ftrace/plan_fields.h"
#include "protos/fields.h"

// Values of `type` and `label` in google.protobuf.FieldDescriptorProto.
enum {
    DESCRIPTOR_TYPE_INT64 = 3,
    DESCRIPTOR_TYPE_UINT64 = 4,
    DESCRIPTOR_TYPE_STRING = 9,
    DESCRIPTOR_TYPE_BYTES = 12,
    DESCRIPTOR_LABEL_OPTIONAL = 1,
    DESCRIPTOR_LABEL_REPEATED = 3,
};

#define FUNCTION_ADDRESS "void *"

// Tag and length, twice for a field within a GenericFtraceEvent.field.
#define OP_OVERHEAD_MAX  (4 + 3 + WIRE_VARINT_MAX)
#define EVENT_FIXED_MAX  64 // everything around the ops: event_plan.c
#define COMMON_PID_END   8
#define NAMED_VALUES_MAX 64 // of a GenericFtraceEvent: fields and elements of arrays

VEC_DEFINE(plan_ops, struct plan_op);

struct compiler {
    const struct event_format *format;
    const char *group;
    size_t long_size;
    struct plan_ops ops;
    struct strbuf bytes;      // constant prefixes
    struct strbuf descriptor; // DescriptorProto.field messages in a row
    size_t record_min, fixed_max, dynamic_factor;
};

static void compiler_done(struct compiler *compiler)
{
    plan_ops_done(&compiler->ops);
    strbuf_done(&compiler->bytes);
    strbuf_done(&compiler->descriptor);
}

static void add_varint(struct strbuf *buf, uint64_t value)
{
    uint8_t bytes[WIRE_VARINT_MAX];
    strbuf_add(buf, bytes, (size_t)(wire_put_varint(bytes, value) - bytes));
}

static void add_tag(struct strbuf *buf, uint32_t field, enum wire_type type)
{
    add_varint(buf, (uint64_t)field << 3 | type);
}

static void add_number(struct strbuf *buf, uint32_t field, uint64_t value)
{
    add_tag(buf, field, WIRE_VARINT);
    add_varint(buf, value);
}

static void add_bytes(struct strbuf *buf, uint32_t field, const void *bytes, size_t size)
{
    add_tag(buf, field, WIRE_BYTES);
    add_varint(buf, size);
    strbuf_add(buf, bytes, size);
}

static void add_text(struct strbuf *buf, uint32_t field, const char *text)
{
    add_bytes(buf, field, text, strlen(text));
}

static uint32_t pack_tag(uint32_t field, enum wire_type type, uint8_t *ret_size)
{
    uint8_t bytes[WIRE_VARINT_MAX] = {0};
    *ret_size = (uint8_t)(wire_put_varint(bytes, (uint64_t)field << 3 | type) - bytes);
    uint32_t tag;
    memcpy(&tag, bytes, sizeof(tag));
    return tag;
}

static enum wire_type wire_type_of(enum plan_kind kind)
{
    return plan_kind_is_text(kind) || plan_kind_is_bytes(kind) ? WIRE_BYTES : WIRE_VARINT;
}

static void choose_quick(struct plan_op *op)
{
    size_t end = (size_t)op->offset + op->size;
    bool is_word = op->kind >= PLAN_U8 && op->kind <= PLAN_S32;
    bool is_signed = (op->kind >= PLAN_S8 && op->kind <= PLAN_S32) || op->kind == PLAN_PID32;
    if (op->kind == PLAN_TEXT16)
        op->quick = PLAN_QUICK_TEXT16;
    if ((!is_word && op->kind != PLAN_PID32) || end < sizeof(uint64_t))
        return;
    op->quick = is_word ? PLAN_QUICK_WORD : PLAN_QUICK_PID;
    op->word = (uint16_t)(end - sizeof(uint64_t));
    op->word_shift = (uint8_t)(64 - 8 * op->size);
    op->sign = is_signed ? UINT64_C(1) << (8 * op->size - 1) : 0;
}

static int add_op(struct compiler *compiler, const struct format_field *field,
                  struct plan_field how, uint32_t number)
{
    struct plan_op op = {
        .kind = (uint8_t)how.kind,
        .offset = field->offset,
        .size = field->size,
        .element_size = how.element_size,
        .is_signed = how.is_signed,
    };
    op.tag = pack_tag(number, wire_type_of(how.kind), &op.tag_size);
    choose_quick(&op);
    size_t end = field->offset + plan_kind_reads(how.kind, field->size);
    if (end > compiler->record_min)
        compiler->record_min = end;
    size_t per_element = how.element_size ? 4 + WIRE_VARINT_MAX : 0;
    compiler->fixed_max += OP_OVERHEAD_MAX;
    if (how.kind == PLAN_POINTED32 || how.kind == PLAN_POINTED64)
        compiler->fixed_max += PLAN_POINTED_TEXT_MAX;
    if (plan_kind_is_dynamic(how.kind))
        compiler->dynamic_factor +=
            per_element ? (per_element + how.element_size - 1) / how.element_size : 1;
    else
        compiler->fixed_max +=
            per_element ? field->size / how.element_size * per_element : field->size;
    return plan_ops_push(&compiler->ops, op);
}

// Events of function_graph have function addresses in plain integers.
static struct format_field as_function(const struct compiler *compiler,
                                       const struct format_field *field)
{
    struct format_field ret = *field;
    if (str_eq(compiler->group, "ftrace") &&
        str_starts_with(compiler->format->name, "funcgraph_") && str_eq(field->name, "func"))
        ret.type = FUNCTION_ADDRESS;
    return ret;
}

static int compile_typed(struct compiler *compiler, const struct ftrace_event_type *type)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct format_field *found =
            event_format_field(compiler->format, type->fields[i].name);
        if (!found)
            continue;
        struct format_field field = as_function(compiler, found);
        struct plan_field how = plan_field_for(&field, &type->fields[i], compiler->long_size);
        if (how.kind == PLAN_NONE)
            continue;
        int r = add_op(compiler, &field, how, type->fields[i].number);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_signed_number(const struct plan_field *how, const struct format_field *field)
{
    switch (how->kind) {
    case PLAN_S8:
    case PLAN_S16:
    case PLAN_S32:
    case PLAN_PID32:
        return true;
    case PLAN_64:
        return field->is_signed;
    default:
        return plan_kind_is_repeated(how->kind) && how->is_signed;
    }
}

static void describe(struct compiler *compiler, const struct format_field *field,
                     const struct plan_field *how, uint32_t number)
{
    unsigned type = is_signed_number(how, field) ? DESCRIPTOR_TYPE_INT64 : DESCRIPTOR_TYPE_UINT64;
    if (plan_kind_is_text(how->kind))
        type = DESCRIPTOR_TYPE_STRING;
    else if (plan_kind_is_bytes(how->kind))
        type = DESCRIPTOR_TYPE_BYTES;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    add_text(&text, PB_FieldDescriptorProto_name, field->name);
    add_number(&text, PB_FieldDescriptorProto_number, number);
    add_number(&text, PB_FieldDescriptorProto_label,
               plan_kind_is_repeated(how->kind) ? DESCRIPTOR_LABEL_REPEATED
                                                : DESCRIPTOR_LABEL_OPTIONAL);
    add_number(&text, PB_FieldDescriptorProto_type, type);
    add_bytes(&compiler->descriptor, PB_DescriptorProto_field, text.text, text.size);
    compiler->descriptor.failed |= text.failed;
}

static int compile_described(struct compiler *compiler)
{
    uint32_t number = 0;
    vec_foreach(&compiler->format->fields, field) {
        struct plan_field how = plan_field_of(field, compiler->long_size);
        if (how.kind == PLAN_NONE)
            continue;
        int r = add_op(compiler, field, how, ++number);
        if (r < 0)
            return r;
        describe(compiler, field, &how, number);
    }
    return compiler->descriptor.failed ? -ENOMEM : 0;
}

// Adds an op with the constant start of its GenericFtraceEvent.field: tag, length (set while
// encoding) and name.
static int add_named_op(struct compiler *compiler, const struct format_field *field,
                        struct plan_field how)
{
    uint32_t number = PB_GenericFtraceEvent_Field_uint_value;
    if (plan_kind_is_text(how.kind))
        number = PB_GenericFtraceEvent_Field_str_value;
    else if (is_signed_number(&how, field))
        number = PB_GenericFtraceEvent_Field_int_value;
    if (compiler->ops.n == NAMED_VALUES_MAX)
        return 0;
    int r = add_op(compiler, field, how, number);
    if (r < 0)
        return r;
    size_t at = compiler->bytes.size;
    add_tag(&compiler->bytes, PB_GenericFtraceEvent_field, WIRE_BYTES);
    strbuf_add_char(&compiler->bytes, '\0');
    add_text(&compiler->bytes, PB_GenericFtraceEvent_Field_name, field->name);
    if (compiler->bytes.failed || compiler->bytes.size > UINT16_MAX)
        return -ENOMEM;
    struct plan_op *op = &compiler->ops.items[compiler->ops.n - 1];
    op->prefix = (uint16_t)at;
    op->prefix_size = (uint16_t)(compiler->bytes.size - at);
    compiler->fixed_max += op->prefix_size + 3;
    return 0;
}

// GenericFtraceEvent has no bytes and no arrays: the elements of an array of numbers are written
// one by one, and other arrays and bytes are left out.
static int compile_generic(struct compiler *compiler)
{
    add_text(&compiler->bytes, PB_GenericFtraceEvent_event_name, compiler->format->name);
    compiler->fixed_max += compiler->bytes.size;
    vec_foreach(&compiler->format->fields, field) {
        struct plan_field how = plan_field_of(field, compiler->long_size);
        if (how.kind == PLAN_NONE || plan_kind_is_bytes(how.kind))
            continue;
        if (plan_kind_is_repeated(how.kind) && how.kind != PLAN_ELEMENTS)
            continue;
        size_t n = how.kind == PLAN_ELEMENTS ? field->size / how.element_size : 1;
        for (size_t i = 0; i < n; i++) {
            struct format_field part = *field;
            if (how.kind == PLAN_ELEMENTS) {
                part.is_array = false;
                part.size = how.element_size;
                part.offset = (uint16_t)(field->offset + i * how.element_size);
            }
            int r = add_named_op(compiler, &part, plan_field_of(&part, compiler->long_size));
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static void compile_kprobe(struct compiler *compiler, unsigned type)
{
    add_text(&compiler->bytes, PB_KprobeEvent_name, compiler->format->name);
    add_number(&compiler->bytes, PB_KprobeEvent_type, type);
    compiler->fixed_max += compiler->bytes.size;
}

static uint8_t *copy_bytes(const void *bytes, size_t size)
{
    uint8_t *copy = memory_malloc(size ? size : 1);
    if (copy && size)
        memcpy(copy, bytes, size);
    return copy;
}

static int finish_descriptor(const struct compiler *compiler, struct event_plan *plan)
{
    CLEANUP(strbuf_done) struct strbuf event = {0}, whole = {0};
    add_text(&event, PB_DescriptorProto_name, compiler->format->name);
    strbuf_add(&event, compiler->descriptor.text, compiler->descriptor.size);
    add_number(&whole, PB_FtraceEventBundle_GenericEventDescriptor_field_id, plan->field_number);
    add_bytes(&whole, PB_FtraceEventBundle_GenericEventDescriptor_event_descriptor, event.text,
              event.size);
    add_text(&whole, PB_FtraceEventBundle_GenericEventDescriptor_group_name, compiler->group);
    if (event.failed || whole.failed)
        return -ENOMEM;
    plan->descriptor_size = whole.size;
    plan->descriptor = (uint8_t *)strbuf_steal(&whole);
    return 0;
}

// Returns the offset of a pid that begins, ends or is renamed by this event.
static uint16_t pid_change_of(const struct event_format *format, const char *group)
{
    static const char *const events[][2] = {
        {"task", "task_newtask"},
        {"task", "task_rename"},
        {"sched", "sched_process_exit"},
    };
    for (size_t i = 0; i < ELEMENTS(events); i++) {
        const struct format_field *pid = event_format_field(format, "pid");
        if (str_eq(group, events[i][0]) && str_eq(format->name, events[i][1]) && pid &&
            pid->size == 4)
            return pid->offset;
    }
    return 0;
}

static int finish(const struct compiler *compiler, uint32_t field_number, size_t prefix_size,
                  bool described, struct event_plan **ret)
{
    size_t ops_size = compiler->ops.n * sizeof(struct plan_op);
    struct event_plan *plan = memory_calloc(1, sizeof(*plan) + ops_size);
    if (!plan)
        return -ENOMEM;
    plan->id = compiler->format->id;
    plan->field_number = field_number;
    plan->tag = pack_tag(field_number, WIRE_BYTES, &plan->tag_size);
    plan->n_ops = (uint16_t)compiler->ops.n;
    plan->explained = described;
    vec_foreach(&compiler->ops, op)
        plan->explained |= op->kind == PLAN_SYMBOL32 || op->kind == PLAN_SYMBOL64;
    plan->pid_changes = pid_change_of(compiler->format, compiler->group);
    size_t record_min = compiler->record_min;
    if (record_min < COMMON_PID_END)
        record_min = COMMON_PID_END;
    if (plan->pid_changes && record_min < plan->pid_changes + sizeof(int32_t))
        record_min = plan->pid_changes + sizeof(int32_t);
    plan->record_min = (uint16_t)record_min;
    plan->fixed_max = (uint32_t)(EVENT_FIXED_MAX + compiler->fixed_max);
    plan->dynamic_factor = (uint32_t)compiler->dynamic_factor;
    plan->prefix_size = (uint16_t)prefix_size;
    if (ops_size)
        memcpy(plan->ops, compiler->ops.items, ops_size);
    plan->bytes = copy_bytes(compiler->bytes.text, compiler->bytes.size);
    if (!plan->bytes || (described && finish_descriptor(compiler, plan) < 0)) {
        event_plan_free(plan);
        return -ENOMEM;
    }
    *ret = plan;
    return 0;
}

static int check_common(const struct event_format *format, struct err *err)
{
    const struct format_field *pid = event_format_field(format, "common_pid");
    const struct format_field *type = event_format_field(format, "common_type");
    if (!pid || pid->offset != 4 || pid->size != 4 || !type || type->offset != 0 || type->size != 2)
        return err_set(err, -EINVAL, "event %s: common fields are not where every kernel has them",
                       format->name);
    return 0;
}

int event_plan_compile(const struct event_format *format, const char *group,
                       enum event_plan_style style, const struct ftrace_event_type *type,
                       size_t long_size, struct event_plan **ret, struct err *err)
{
    int r = check_common(format, err);
    if (r < 0)
        return r;
    CLEANUP(compiler_done)
    struct compiler compiler = {.format = format, .group = group, .long_size = long_size};
    uint32_t field_number = 0;
    switch (style) {
    case EVENT_PLAN_TYPED:
        field_number = type->number;
        r = compile_typed(&compiler, type);
        break;
    case EVENT_PLAN_DESCRIBED:
        field_number = EVENT_PLAN_GENERIC_FIELD + format->id;
        r = compile_described(&compiler);
        break;
    case EVENT_PLAN_GENERIC:
        field_number = PB_FtraceEvent_generic;
        r = compile_generic(&compiler);
        break;
    case EVENT_PLAN_KPROBE:
    case EVENT_PLAN_KPROBE_BEGIN:
    case EVENT_PLAN_KPROBE_END:
        field_number = PB_FtraceEvent_kprobe_event;
        compile_kprobe(&compiler, style == EVENT_PLAN_KPROBE_BEGIN ? PB_KPROBE_TYPE_BEGIN
                                  : style == EVENT_PLAN_KPROBE_END ? PB_KPROBE_TYPE_END
                                                                   : PB_KPROBE_TYPE_INSTANT);
        break;
    }
    size_t prefix_size = compiler.bytes.size;
    if (style == EVENT_PLAN_GENERIC)
        prefix_size = compiler.ops.n ? compiler.ops.items[0].prefix : compiler.bytes.size;
    if (r >= 0 && compiler.bytes.failed)
        r = -ENOMEM;
    if (r >= 0)
        r = finish(&compiler, field_number, prefix_size, style == EVENT_PLAN_DESCRIBED, ret);
    return r < 0 ? err_errno(err, r, "event %s/%s", group, format->name) : 0;
}
