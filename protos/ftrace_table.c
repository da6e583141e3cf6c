// SPDX-License-Identifier: Apache-2.0
//
// Look-ups over the generated table. Names are looked up once per event and session, numbers once
// per event and trace, so two binary searches will do.
#include "protos/ftrace_table.h"

#include <string.h>

const struct ftrace_event_type *ftrace_event_type_by_name(const char *name)
{
    size_t low = 0, high = n_ftrace_event_types;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ftrace_event_type *type =
            &ftrace_event_types[ftrace_event_types_by_name[middle]];
        int order = strcmp(name, type->name);
        if (order == 0)
            return type;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct ftrace_event_type *ftrace_event_type_by_number(uint32_t number)
{
    size_t low = 0, high = n_ftrace_event_types;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ftrace_event_type *type = &ftrace_event_types[middle];
        if (type->number == number)
            return type;
        if (number < type->number)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct ftrace_event_type *ftrace_event_type_by_kernel_name(const char *group,
                                                                 const char *name)
{
    size_t low = 0, high = n_ftrace_kernel_names;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ftrace_kernel_name *entry = &ftrace_kernel_names[middle];
        int order = strcmp(name, entry->name);
        if (order == 0)
            order = strcmp(group, entry->group);
        if (order == 0)
            return ftrace_event_type_by_number(entry->number);
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct ftrace_field_type *ftrace_field_type_by_name(const struct ftrace_event_type *type,
                                                          const char *name)
{
    for (size_t i = 0; i < type->n_fields; i++)
        if (strcmp(type->fields[i].name, name) == 0)
            return &type->fields[i];
    return NULL;
}
