// SPDX-License-Identifier: Apache-2.0
//
// Format files are text for people. The parser takes one line at a time and requires only
// `field:DECLARATION; offset:N; size:N; signed:N;`. Other lines (the print format, additions of
// later kernels) are skipped. Declarations are C, but only the last identifier (the name) and an
// array suffix are separated. The rest is the type, which the callers interpret. Numbers are
// limited here: no later sum of offset and size overflows.
#include "producer/sources/ftrace/format.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

// Cuts everything up to `separator` off the front of *rest.
static struct span span_cut(struct span *rest, char separator)
{
    const char *end = memchr(rest->pos, separator, span_size(*rest));
    struct span head = {rest->pos, end ? end : rest->end};
    rest->pos = end ? end + 1 : rest->end;
    return head;
}

static bool span_u16(struct span span, uint16_t *ret)
{
    uint64_t value;
    if (!span_take_u64(&span, &value) || value > FORMAT_END_MAX)
        return false;
    *ret = (uint16_t)value;
    return true;
}

static bool is_identifier(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// Splits "unsigned long args[6]" into "unsigned long" and "args". An array suffix that belongs to
// the type ("char[] name") stays there.
static int parse_declaration(struct span text, struct arena *arena, struct format_field *field)
{
    text = span_trim(text);
    const char *end = text.end;
    if (end > text.pos && end[-1] == ']') {
        while (end > text.pos && end[-1] != '[')
            end--;
        if (end == text.pos)
            return -EINVAL;
        span_u16((struct span){end, text.end}, &field->n_elements);
        end--;
        field->is_array = true;
    }
    const char *start = end;
    while (start > text.pos && is_identifier(start[-1]))
        start--;
    if (start == end)
        return -EINVAL;
    struct span type = span_trim((struct span){text.pos, start});
    field->name = arena_strndup(arena, start, (size_t)(end - start));
    field->type = arena_strndup(arena, type.pos, span_size(type));
    return field->name && field->type ? 0 : -ENOMEM;
}

// Returns 1 for a field, 0 for another line, or a negative errno for a malformed field.
static int parse_field_line(struct span line, struct arena *arena, struct format_field *ret)
{
    line = span_trim(line);
    if (!span_take_prefix(&line, "field:"))
        return 0;
    *ret = (struct format_field){0};
    int r = parse_declaration(span_cut(&line, ';'), arena, ret);
    if (r < 0)
        return r;
    bool has_offset = false, has_size = false;
    while (span_size(line)) {
        struct span part = span_trim(span_cut(&line, ';'));
        uint16_t is_signed;
        if (span_take_prefix(&part, "offset:"))
            has_offset = span_u16(part, &ret->offset);
        else if (span_take_prefix(&part, "size:"))
            has_size = span_u16(part, &ret->size);
        else if (span_take_prefix(&part, "signed:"))
            ret->is_signed = span_u16(part, &is_signed) && is_signed;
    }
    if (!has_offset || !has_size || ret->offset + ret->size > FORMAT_END_MAX)
        return -EINVAL;
    return 1;
}

static int parse_line(struct span line, struct event_format *ret, bool *ret_has_id)
{
    struct span rest = line;
    if (span_take_prefix(&rest, "name:")) {
        rest = span_trim(rest);
        ret->name = arena_strndup(&ret->arena, rest.pos, span_size(rest));
        return ret->name ? 0 : -ENOMEM;
    }
    if (span_take_prefix(&rest, "ID:")) {
        *ret_has_id = span_u16(rest, &ret->id);
        return *ret_has_id ? 0 : -EINVAL;
    }
    struct format_field field;
    int r = parse_field_line(line, &ret->arena, &field);
    if (r <= 0)
        return r;
    struct format_fields *to = str_starts_with(field.name, "common_") ? &ret->common : &ret->fields;
    if (to->n == FORMAT_FIELDS_MAX)
        return -EINVAL;
    return format_fields_push(to, field);
}

int event_format_parse(const char *text, size_t size, struct event_format *ret, struct err *err)
{
    CLEANUP(event_format_done) struct event_format format = {0};
    struct span rest = span_over(text, size);
    bool has_id = false;
    for (unsigned number = 1; span_size(rest); number++) {
        int r = parse_line(span_cut(&rest, '\n'), &format, &has_id);
        if (r < 0)
            return err_errno(err, r, "event format, line %u", number);
    }
    if (!format.name || !*format.name || !has_id)
        return err_set(err, -EINVAL, "event format: no name or no ID");
    *ret = format;
    format = (struct event_format){0};
    return 0;
}

void event_format_done(struct event_format *format)
{
    format_fields_done(&format->common);
    format_fields_done(&format->fields);
    arena_done(&format->arena);
    *format = (struct event_format){0};
}

const struct format_field *event_format_field(const struct event_format *format, const char *name)
{
    vec_foreach(&format->fields, field)
        if (str_eq(field->name, name))
            return field;
    vec_foreach(&format->common, field)
        if (str_eq(field->name, name))
            return field;
    return NULL;
}

int page_layout_parse(const char *text, size_t size, struct page_layout *ret, struct err *err)
{
    struct span rest = span_over(text, size);
    struct arena arena = {0};
    struct page_layout layout = {0};
    while (span_size(rest)) {
        struct format_field field;
        if (parse_field_line(span_cut(&rest, '\n'), &arena, &field) <= 0)
            continue;
        if (str_eq(field.name, "commit") && field.offset == 8) {
            layout.commit_size = field.size;
        } else if (str_eq(field.name, "data")) {
            layout.data_offset = field.offset;
            layout.data_size = field.size;
        }
    }
    arena_done(&arena);
    if ((layout.commit_size != 4 && layout.commit_size != 8) ||
        layout.data_offset < 8 + layout.commit_size || !layout.data_size)
        return err_set(err, -EINVAL, "events/header_page: not the layout of a ring buffer page");
    *ret = layout;
    return 0;
}

struct page_layout page_layout_default(size_t long_size, size_t page_size)
{
    uint16_t offset = (uint16_t)(8 + long_size);
    return (struct page_layout){.commit_size = (uint16_t)long_size,
                                .data_offset = offset,
                                .data_size = (uint32_t)(page_size - offset)};
}
