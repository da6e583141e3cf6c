// SPDX-License-Identifier: Apache-2.0
//
// Fields of an event usually come in the order of their numbers, which is also the order of their
// slots. Types and values are then written one after the other, without a table of values in
// between. All other rows, damaged rows too, are made from cells.
#include "converter/tables/event_rows.h"

#include "common/wire.h"
#include "converter/tables/record_format.h"
#include "converter/tables/schema.h"
#include "converter/tables/text_mend.h"

#define HEAD_MAX 0x7f // so that the size of the header takes one byte

_Static_assert(sizeof(struct event_row) % sizeof(struct cell) == 0, "rows fill cells of a batch");
_Static_assert(COL__arg_set_value_0 + EVENT_FIELDS_MAX <= EVENT_CELLS_MAX, "all fields have room");
_Static_assert(COL__arg_set_kind_id == 1 && COL__arg_set_ts == 2 && COL__arg_set_utid == 3 &&
                   COL__arg_set_common_flags == 4 && COL__arg_set_ucpu == 5 &&
                   COL__arg_set_value_0 == 6,
               "the columns are in this order");

static bool field_is_known(const struct event_layout *layout, const struct wire_field *field)
{
    if (field->number >= EVENT_FIELDS_MAX || !layout->fields[field->number].slot)
        return false;
    // As in protobuf, a field of another wire type is not the same field.
    return layout->fields[field->number].is_text == (field->type == WIRE_BYTES);
}

// A message with zeroes after it, so that each number can be read with one load.
struct padded {
    uint8_t bytes[EVENT_MESSAGE_MAX + WIRE_VARINT_MAX];
};

static inline const uint8_t *message_pad(const struct event_row *row, struct padded *padded)
{
    memcpy(padded->bytes, row->message, row->size);
    memset(padded->bytes + row->size, 0, WIRE_VARINT_MAX);
    return padded->bytes;
}

// Reads the next field of a padded message. Returns false for fields that are rare or damaged.
static inline bool field_read(const uint8_t **pos, const uint8_t *end, struct wire_field *ret)
{
    unsigned tag = *(*pos)++, type = tag & 7;
    if (tag < 8 || tag >= 0x80 || (type != WIRE_VARINT && type != WIRE_BYTES))
        return false;
    *ret = (struct wire_field){.number = tag >> 3, .type = type};
    if (!wire_get_long_varint(pos, end + WIRE_VARINT_MAX, &ret->value))
        return false;
    if (type == WIRE_BYTES) {
        ret->data = *pos;
        ret->size = ret->value;
        if (ret->size > (size_t)(end - *pos))
            return false;
        *pos += ret->size;
    }
    return *pos <= end;
}

bool event_record_make(const struct event_row *row, struct event_record *ret)
{
    const struct event_layout *layout = row->layout;
    struct padded padded;
    const uint8_t *pos = message_pad(row, &padded), *end = pos + row->size;
    uint8_t *type = ret->head + 1, *to = ret->body;
    unsigned n_slots = 0;
    *type++ = RECORD_NULL; // the id
    to += record_put_int(to, layout->kind, type++);
    to += record_put_int(to, row->ts, type++);
    to += record_put_int(to, row->utid, type++);
    *type++ = RECORD_NULL; // the flags
    to += record_put_int(to, row->ucpu, type++);
    while (pos < end) {
        struct wire_field field;
        if (!field_read(&pos, end, &field))
            return false;
        if (!field_is_known(layout, &field))
            continue;
        unsigned slot = layout->fields[field.number].slot;
        if (slot <= n_slots)
            return false;
        while (++n_slots < slot)
            *type++ = RECORD_NULL;
        if (field.type != WIRE_BYTES) {
            to += record_put_int(to, (int64_t)field.value, type++);
            continue;
        }
        if (!text_is_ascii(field.data, field.size))
            return false;
        type += put_varint(type, record_text_type(field.size));
        memcpy(to, field.data, field.size);
        to += field.size;
    }
    ret->n_head = (size_t)(type - ret->head);
    ret->n_body = (size_t)(to - ret->body);
    ret->head[0] = (uint8_t)ret->n_head;
    return ret->n_head <= HEAD_MAX;
}

size_t event_row_cells(const struct event_row *row, struct cell *cells)
{
    const struct event_layout *layout = row->layout;
    size_t n = COL__arg_set_value_0 + layout->n_slots;
    memset(cells, 0, n * sizeof(*cells));
    cell_int(cells, COL__arg_set_id, row->id);
    cell_int(cells, COL__arg_set_kind_id, layout->kind);
    cell_int(cells, COL__arg_set_ts, row->ts);
    cell_int(cells, COL__arg_set_utid, row->utid);
    cell_int(cells, COL__arg_set_ucpu, row->ucpu);
    struct wire_reader reader = wire_reader_over(row->message, row->size);
    struct wire_field field;
    while (wire_next_hot(&reader, &field)) {
        if (!field_is_known(layout, &field))
            continue;
        size_t column = COL__arg_set_value_0 + layout->fields[field.number].slot - 1u;
        if (field.type == WIRE_BYTES)
            cell_bytes(cells, column, field.data, field.size);
        else
            cell_int(cells, column, (int64_t)field.value);
    }
    return n;
}
