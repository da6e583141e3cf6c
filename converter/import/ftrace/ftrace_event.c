// SPDX-License-Identifier: Apache-2.0
//
// See ftrace_event.h.
#include "converter/import/ftrace/ftrace_event.h"

#include <string.h>

#include "converter/import/arg_writer.h"
#include "protos/fields.h"

// Fields usually come in the order of their numbers, so the function tries the next slot first.
size_t ftrace_slot(const struct ftrace_event_type *type, uint32_t number, size_t hint)
{
    for (size_t i = hint; i < type->n_fields; i++)
        if (type->fields[i].number == number)
            return i;
    for (size_t i = 0; i < hint && i < type->n_fields; i++)
        if (type->fields[i].number == number)
            return i;
    return SIZE_MAX;
}

const struct wire_field *ftrace_values(const struct ftrace_event *event)
{
    struct ftrace_values *values = event->values;
    if (values->is_read)
        return values->fields;
    values->is_read = true;
    memset(values->fields, 0, event->type->n_fields * sizeof(values->fields[0]));
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    size_t hint = 0;
    wire_foreach(&reader, &field) {
        size_t slot = ftrace_slot(event->type, field.number, hint);
        if (slot == SIZE_MAX)
            continue;
        hint = slot + 1;
        values->fields[slot] = field;
    }
    return values->fields;
}

static const struct wire_field *value_by_name(const struct ftrace_event *event, const char *name,
                                              const struct ftrace_field_type **ret)
{
    static const struct wire_field none = {0};
    const struct ftrace_field_type *type = ftrace_field_type_by_name(event->type, name);
    *ret = type;
    return type ? &ftrace_values(event)[type - event->type->fields] : &none;
}

// Returns the field `name` of the message; all zero if the field is absent.
static struct wire_field ftrace_field(const struct ftrace_event *event, const char *name)
{
    const struct ftrace_field_type *type;
    return *value_by_name(event, name, &type);
}

bool ftrace_has(const struct ftrace_event *event, const char *name)
{
    struct wire_field field = ftrace_field(event, name);
    return field_present(&field);
}

int64_t ftrace_int(const struct ftrace_event *event, const char *name)
{
    const struct ftrace_field_type *type;
    const struct wire_field *field = value_by_name(event, name, &type);
    return type ? ftrace_number(type, field) : 0;
}

struct slice_name ftrace_text(const struct ftrace_event *event, const char *name)
{
    struct wire_field field = ftrace_field(event, name);
    return (struct slice_name){.text = field_text(&field), .size = field.size};
}

struct slice_name ftrace_function(struct import *im, const struct ftrace_event *event,
                                  const char *field)
{
    uint64_t number = (uint64_t)ftrace_int(event, field);
    struct slice_name symbol = ftrace_symbol(event, number);
    return symbol.text ? symbol : import_text(im, "0x%llx", (unsigned long long)number);
}

uint32_t ftrace_own_track(struct import *im, const struct ftrace_event *event)
{
    return thread_track_get(im, processes_thread(&im->processes, event->pid));
}

struct slice_name ftrace_symbol(const struct ftrace_event *event, uint64_t iid)
{
    struct wire_field text;
    if (!interned_text(event->state, PB_InternedData_kernel_symbols, iid, &text))
        return (struct slice_name){0};
    return (struct slice_name){.text = field_text(&text), .size = text.size};
}
