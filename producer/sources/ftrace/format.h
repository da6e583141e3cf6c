// SPDX-License-Identifier: Apache-2.0
//
// The kernel's own description of its records: events/GROUP/NAME/format, and events/header_page.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/vec.h"

#define FORMAT_FIELDS_MAX 256   // of one event
#define FORMAT_END_MAX    65535 // no field lies beyond

struct format_field {
    const char *type; // as the kernel spells it, without name and array suffix: "__data_loc char[]"
    const char *name;
    uint16_t offset;
    uint16_t size;       // bytes; 0 means "to the end of the record"
    uint16_t n_elements; // "name[4]"; 0 for "name[]" and where the number is a name
    bool is_array;       // "name[...]"
    bool is_signed;
};

VEC_DEFINE(format_fields, struct format_field);

// Released by event_format_done(). All zero is an empty one.
struct event_format {
    const char *name;
    uint16_t id;
    struct format_fields common; // common_type, common_pid and so on, in every record
    struct format_fields fields; // the event's own
    struct arena arena;          // owns all texts
};

// Parses the text of a format file; *ret is overwritten. 0, -EINVAL (not such a text) or -ENOMEM;
// nothing to release then.
int event_format_parse(const char *text, size_t size, struct event_format *ret, struct err *err);
void event_format_done(struct event_format *format);

// By name, among the event's own fields or the common ones; NULL if there is none.
const struct format_field *event_format_field(const struct event_format *format, const char *name);

// How a sub-buffer begins. The commit word's width is that of the kernel's long.
struct page_layout {
    uint16_t commit_size; // 4 or 8
    uint16_t data_offset;
    uint32_t data_size; // of the buffer that the header_page belongs to
};

// 0 or -EINVAL.
int page_layout_parse(const char *text, size_t size, struct page_layout *ret, struct err *err);

// What a 64-bit (or 32-bit) kernel with pages of `page_size` has, where header_page cannot be read.
struct page_layout page_layout_default(size_t long_size, size_t page_size);
