// SPDX-License-Identifier: Apache-2.0
//
// A number takes the fewest bytes that hold it. A REAL with an integral value is stored as an
// integer, as SQLite does in REAL columns.
#include "converter/tables/record_format.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WHOLE_REAL_MAX 140737488355327.0 // as in SQLite: the largest value of six bytes

static bool real_is_whole(double value)
{
    return value >= -WHOLE_REAL_MAX && value <= WHOLE_REAL_MAX && (double)(int64_t)value == value &&
           (value != 0 || !signbit(value));
}

static uint64_t cell_type(const struct cell *cell)
{
    switch ((enum cell_type)cell->type) {
    case CELL_NULL:
        break;
    case CELL_INT:
        return record_int_type(cell->integer);
    case CELL_REAL:
        if (isnan(cell->real)) // SQL has no NaN
            break;
        return real_is_whole(cell->real) ? record_int_type((int64_t)cell->real) : RECORD_REAL;
    case CELL_TEXT:
        return RECORD_TEXT + 2 * (uint64_t)cell->size;
    case CELL_BLOB:
        return RECORD_BLOB + 2 * (uint64_t)cell->size;
    }
    return RECORD_NULL;
}

static size_t type_size(uint64_t type)
{
    return type < RECORD_BLOB ? record_sizes[type] : (type - RECORD_BLOB) / 2;
}

static size_t varint_size(uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    return put_varint(bytes, value);
}

void record_measure(struct record *record, const struct cell *cells, size_t n_cells)
{
    while (n_cells > 1 && cells[n_cells - 1].type == CELL_NULL)
        n_cells--;
    record->ready = NULL;
    record->cells = cells;
    record->n_cells = n_cells;
    size_t n_head = 0, n_body = 0;
    for (size_t i = 0; i < n_cells; i++) {
        uint64_t type = cell_type(&cells[i]);
        record->types[i] = type;
        n_head += type < 0x80 ? 1 : varint_size(type);
        n_body += type_size(type);
    }
    n_head += n_head < 0x7f ? 1 : 2; // plus the bytes of the header's size
    record->n_head = n_head;
    record->size = n_head + n_body;
}

size_t record_put_real(uint8_t *to, int64_t bits, uint8_t *ret_type)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    *ret_type = isnan(value) ? RECORD_NULL : RECORD_REAL; // SQL has no NaN
    bits = (int64_t)htobe64((uint64_t)bits);
    memcpy(to, &bits, sizeof(bits));
    return record_sizes[*ret_type];
}

size_t record_write_number(int64_t value, uint8_t *to)
{
    to[0] = 3; // size of the header
    to[1] = RECORD_NULL;
    return 3 + record_put_int(to + 3, value, to + 2);
}

// Reads a varint, most significant bits first, of a record that this program wrote.
static uint64_t get_varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (size_t i = 0; i < VARINT_MAX - 1; i++) {
        uint8_t byte = *(*at)++;
        value = value << 7 | (byte & 0x7f);
        if (byte < 0x80)
            return value;
    }
    return value << 8 | *(*at)++;
}

static void ready_column(const uint8_t *record, size_t column, struct cell *ret)
{
    const uint8_t *type_at = record, *body = record + get_varint(&type_at), *end = body;
    uint64_t type = RECORD_NULL;
    for (size_t i = 0; i <= column && type_at < end; i++) {
        type = get_varint(&type_at);
        if (i == column)
            break;
        body += type_size(type);
        type = RECORD_NULL;
    }
    if (type == RECORD_NULL)
        *ret = (struct cell){.type = CELL_NULL};
    else if (type < RECORD_REAL || type == RECORD_0 || type == RECORD_1)
        *ret = (struct cell){.integer = record_get_int(body, (uint8_t)type), .type = CELL_INT};
    else if (type >= RECORD_TEXT && type % 2)
        *ret = (struct cell){.bytes = body, .size = (uint32_t)type_size(type), .type = CELL_TEXT};
    else
        *ret = (struct cell){.type = CELL_REAL};
}

void record_column(const struct record *record, size_t column, struct cell *ret)
{
    if (record->ready)
        ready_column(record->ready, column, ret);
    else
        *ret = column < record->n_cells ? record->cells[column] : (struct cell){.type = CELL_NULL};
}

static uint8_t *put_int(uint8_t *to, uint64_t value, size_t size)
{
    for (size_t i = size; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
    return to + size;
}

void record_write(const struct record *record, uint8_t *to)
{
    if (record->ready) {
        memcpy(to, record->ready, record->size);
        return;
    }
    uint8_t *head = to + put_varint(to, record->n_head), *body = to + record->n_head;
    for (size_t i = 0; i < record->n_cells; i++) {
        uint64_t type = record->types[i], bits;
        const struct cell *cell = &record->cells[i];
        head += put_varint(head, type);
        if (type >= RECORD_BLOB) {
            if (cell->size)
                memcpy(body, cell->bytes, cell->size);
            body += cell->size;
        } else if (type == RECORD_REAL) {
            memcpy(&bits, &cell->real, sizeof(bits));
            body = put_int(body, bits, sizeof(bits));
        } else if (record_sizes[type]) {
            bits = (uint64_t)(cell->type == CELL_REAL ? (int64_t)cell->real : cell->integer);
            body = put_int(body, bits, record_sizes[type]);
        }
    }
}
