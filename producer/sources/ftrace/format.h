// SPDX-License-Identifier: Apache-2.0
//
// The kernel's description of its records: events/GROUP/NAME/format, and events/header_page.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/vec.h"

#define FORMAT_FIELDS_MAX 256   // of one event
#define FORMAT_END_MAX    65535 // no field ends beyond this offset

struct format_field {
    const char
        *type; // in the kernel's spelling, without name and array suffix: "__data_loc char[]"
    const char *name;
    uint16_t offset;
    uint16_t size;       // bytes; 0: to the end of the record
    uint16_t n_elements; // "name[4]"; 0 for "name[]" and if the number is a symbolic name
    bool is_array;       // "name[...]"
    bool is_signed;
};

VEC_DEFINE(format_fields, struct format_field);

// Release it with event_format_done(). All zero is an empty format.
struct event_format {
    const char *name;
    uint16_t id;
    struct format_fields common; // common_type, common_pid and so on, in every record
    struct format_fields fields; // the event's own
    struct arena arena;          // owns all texts
};

// Parses the text of a format file. Returns 0, -EINVAL if the text is malformed, or -ENOMEM.
int event_format_parse(const char *text, size_t size, struct event_format *ret, struct err *err);
void event_format_done(struct event_format *format);

// Returns the event's own or common field with this name, or NULL.
const struct format_field *event_format_field(const struct event_format *format, const char *name);

// The header of a sub-buffer. The commit word is as wide as the kernel's long.
struct page_layout {
    uint16_t commit_size; // 4 or 8
    uint16_t data_offset;
    uint32_t data_size; // of the buffer that the header_page belongs to
};

// Parses the text of events/header_page. Returns 0 or -EINVAL.
int page_layout_parse(const char *text, size_t size, struct page_layout *ret, struct err *err);

// Returns the layout of a 64-bit (or 32-bit) kernel with pages of `page_size`, for use without
// header_page.
struct page_layout page_layout_default(size_t long_size, size_t page_size);
