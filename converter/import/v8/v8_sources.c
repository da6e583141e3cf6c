// SPDX-License-Identifier: Apache-2.0
//
// Sources of V8's code: isolates, scripts, functions. A sequence refers to sources by iid (interned
// data). Their content identifies rows, because other sequences, or the same sequence after a
// restart, repeat the sources.
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"
#include "converter/import/v8/v8.h"
#include "protos/fields.h"

static void latin1_add(struct strbuf *text, const struct wire_field *field)
{
    for (size_t i = 0; i < field->size; i++)
        strbuf_add_utf8(text, field->data[i]);
}

static uint32_t utf16_unit(const uint8_t *at, bool big)
{
    return big ? (uint32_t)at[0] << 8 | at[1] : (uint32_t)at[1] << 8 | at[0];
}

// Appends UTF-16 as UTF-8. An unpaired surrogate becomes U+FFFD.
static void utf16_add(struct strbuf *text, const struct wire_field *field, bool big)
{
    for (size_t i = 0; i + 2 <= field->size; i += 2) {
        uint32_t c = utf16_unit(field->data + i, big);
        bool is_pair = c >= 0xd800 && c < 0xdc00 && i + 4 <= field->size;
        uint32_t low = is_pair ? utf16_unit(field->data + i + 2, big) : 0;
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        }
        strbuf_add_utf8(text, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    }
}

static void text_add(struct strbuf *text, const union message_V8String *string)
{
    if (string->latin1.data)
        latin1_add(text, &string->latin1);
    else if (string->utf16_le.data)
        utf16_add(text, &string->utf16_le, false);
    else if (string->utf16_be.data)
        utf16_add(text, &string->utf16_be, true);
}

// Keeps a text and returns its id in strings; STRSET_NONE: memory ran out.
static uint32_t v8_text(struct import *im, const union message_V8String *string)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    text_add(&text, string);
    return import_strbuf_keep(im, &text);
}

static void cell_strbuf(struct import *im, struct cell *row, size_t column,
                        const struct strbuf *text)
{
    if (import_strbuf_whole(im, text))
        cell_bytes(row, column, database_copy(im->db, text->text ? text->text : "", text->size),
                   text->size);
}

void v8_cell_text(struct import *im, struct cell *row, size_t column,
                  const struct wire_field *message)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    MESSAGE(part, V8String, message);
    text_add(&text, &part);
    cell_strbuf(im, row, column, &text);
}

void v8_cell_base64(struct import *im, struct cell *row, size_t column,
                    const struct wire_field *bytes)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (bytes->data)
        base64_add(&text, bytes->data, bytes->size);
    cell_strbuf(im, row, column, &text);
}

// Finds an entry, and reads its fields unless the entry has a result already. NULL: the trace lacks
// the entry, or the entry is long and was read too often without a result.
static struct interned *interned_read(struct import *im, const struct packet *packet,
                                      uint32_t table, uint64_t iid, struct wire_field *fields,
                                      size_t n)
{
    struct interned *entry = generation_entry(packet->state, table, iid);
    if (entry && !entry->made)
        entry = generation_find(packet->state, table, iid);
    if (!entry)
        stats_add(&im->stats, STAT_v8_intern_errors, 1);
    else if (!entry->made)
        message_read(wire_reader_over(entry->data, entry->size), fields, n);
    return entry;
}

static int space_add(struct v8 *v8, struct isolate *isolate, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 0;
    struct code_space space = {.start = start, .end = end};
    isolate->spaces[isolate->n_spaces++] = (uint32_t)v8->spaces.n;
    return code_space_vec_push(&v8->spaces, space);
}

static uint64_t end_of(uint64_t start, uint64_t size)
{
    return size > UINT64_MAX - start ? UINT64_MAX : start + size;
}

// Makes the spaces of an isolate: the code range without the built-in code, and the built-in code,
// which may be in the range. Isolates that share a range use the spaces of the first isolate.
static int spaces_make(struct v8 *v8, struct isolate *isolate,
                       const union message_InternedV8Isolate *entry,
                       const union message_InternedV8Isolate_CodeRange *range)
{
    uint64_t index = v8->isolates.n;
    bool is_new = true;
    if (field_u64(&range->is_process_wide)) {
        const uint64_t *first =
            map64_get_or_add(&v8->shared_by, (uint64_t)isolate->upid, index, &is_new);
        if (!first)
            return -ENOMEM;
        index = *first;
    }
    if (!is_new) {
        const struct isolate *of = &v8->isolates.items[index];
        memcpy(isolate->spaces, of->spaces, sizeof(of->spaces));
        isolate->n_spaces = of->n_spaces;
        return 0;
    }
    uint64_t start = field_u64(&range->base_address);
    uint64_t end = end_of(start, field_u64(&range->size));
    const struct wire_field *blob = &entry->embedded_blob_code_start_address;
    uint64_t blob_start = field_u64(blob);
    uint64_t blob_end = end_of(blob_start, field_u64(&entry->embedded_blob_code_size));
    if (!field_present(blob) || blob_start >= blob_end)
        return space_add(v8, isolate, start, end);
    int r = space_add(v8, isolate, start, end < blob_start ? end : blob_start);
    if (r == 0)
        r = space_add(v8, isolate, start > blob_end ? start : blob_end, end);
    return r < 0 ? r : space_add(v8, isolate, blob_start, blob_end);
}

static void isolate_write(struct import *im, const struct isolate *isolate,
                          const union message_InternedV8Isolate *entry,
                          const union message_InternedV8Isolate_CodeRange *range)
{
    const struct wire_field *copy = &range->embedded_blob_code_copy_start_address;
    struct cell *row = database_row_with_id(im->db, TABLE_v8_isolate, isolate->id);
    cell_int(row, COL_v8_isolate_upid, isolate->upid);
    cell_int(row, COL_v8_isolate_internal_isolate_id, (int32_t)field_u64(&entry->isolate_id));
    cell_int(row, COL_v8_isolate_embedded_blob_code_start_address,
             field_i64(&entry->embedded_blob_code_start_address));
    cell_int(row, COL_v8_isolate_embedded_blob_code_size,
             field_i64(&entry->embedded_blob_code_size));
    cell_int(row, COL_v8_isolate_code_range_base_address, field_i64(&range->base_address));
    cell_int(row, COL_v8_isolate_code_range_size, field_i64(&range->size));
    cell_int(row, COL_v8_isolate_shared_code_range, field_u64(&range->is_process_wide) != 0);
    if (field_present(copy))
        cell_int(row, COL_v8_isolate_embedded_blob_code_copy_start_address, field_i64(copy));
}

static int isolate_add(struct import *im, struct v8 *v8, int64_t upid,
                       const union message_InternedV8Isolate *entry)
{
    struct isolate isolate = {.id = V8_NONE, .upid = upid};
    const struct wire_field *message = &entry->code_range;
    int r = 0;
    if (field_present(message)) {
        MESSAGE(range, InternedV8Isolate_CodeRange, message);
        isolate.id = database_reserve_id(im->db, TABLE_v8_isolate);
        isolate.map = database_reserve_id(im->db, TABLE_perf_map);
        r = spaces_make(v8, &isolate, entry, &range);
        isolate_write(im, &isolate, entry, &range);
    } else {
        stats_add(&im->stats, STAT_v8_isolate_has_no_code_range, 1);
    }
    return r < 0 ? r : isolate_vec_push(&v8->isolates, isolate);
}

static int64_t isolate_if_usable(const struct v8 *v8, int64_t index)
{
    return v8->isolates.items[index].id == V8_NONE ? V8_NONE : index;
}

int64_t v8_isolate(struct import *im, struct v8 *v8, const struct packet *packet, uint64_t iid)
{
    union message_InternedV8Isolate entry;
    struct interned *known =
        interned_read(im, packet, PB_InternedData_v8_isolate, iid, entry.at, ELEMENTS(entry.at));
    if (!known || known->made)
        return known ? isolate_if_usable(v8, known->made - 1) : V8_NONE;
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&entry.pid));
    uint64_t key = (uint64_t)upid << 32 | (uint32_t)field_u64(&entry.isolate_id);
    bool is_new;
    const uint64_t *index = import_map_get(im, &v8->isolate_of, key, v8->isolates.n, &is_new);
    if (index && is_new)
        import_fail(im, isolate_add(im, v8, upid, &entry));
    if (import_failed(im))
        return V8_NONE;
    known->made = (int64_t)*index + 1;
    return isolate_if_usable(v8, (int64_t)*index);
}

// *ret: the row for `key`. True: the row is new and must be written.
static bool row_of(struct import *im, struct strset *set, struct v8_row_vec *rows, const void *key,
                   size_t size, enum table_id table, int64_t *ret)
{
    uint32_t id = strset_add(set, key, size);
    bool is_new = id != STRSET_NONE && id >= rows->n;
    if (id == STRSET_NONE ||
        (is_new && v8_row_vec_push(rows, database_reserve_id(im->db, table)) < 0)) {
        import_fail(im, -ENOMEM);
        *ret = V8_NONE;
        return false;
    }
    *ret = rows->items[id];
    return is_new;
}

static int64_t js_script(struct import *im, struct v8 *v8, const struct packet *packet,
                         int64_t isolate, uint64_t iid)
{
    static const char *const types[] = {"UNKNOWN", "NORMAL",    "EVAL",     "MODULE",
                                        "NATIVE",  "EXTENSION", "INSPECTOR"};
    union message_InternedV8JsScript entry;
    struct interned *known =
        interned_read(im, packet, PB_InternedData_v8_js_script, iid, entry.at, ELEMENTS(entry.at));
    if (!known || known->made)
        return known ? known->made - 1 : V8_NONE;
    int64_t id, key[] = {isolate, (int32_t)field_u64(&entry.script_id)};
    bool is_new =
        row_of(im, &v8->js_scripts, &v8->rows_of[0], key, sizeof(key), TABLE_v8_js_script, &id);
    known->made = id + 1;
    if (!is_new)
        return id;
    uint64_t type = field_u64(&entry.type);
    struct cell *row = database_row_with_id(im->db, TABLE_v8_js_script, id);
    cell_int(row, COL_v8_js_script_v8_isolate_id, v8->isolates.items[isolate].id);
    cell_int(row, COL_v8_js_script_internal_script_id, key[1]);
    cell_text(row, COL_v8_js_script_script_type, NAMED(types, type));
    v8_cell_text(im, row, COL_v8_js_script_name, &entry.name);
    v8_cell_text(im, row, COL_v8_js_script_source, &entry.source);
    return id;
}

static const char *function_kind(uint64_t kind)
{
    static const char *const kinds[] = {
        "UNKNOWN",
        "NORMAL_FUNCTION",
        "MODULE",
        "ASYNC_MODULE",
        "BASE_CONSTRUCTOR",
        "DEFAULT_BASE_CONSTRUCTOR",
        "DEFAULT_DERIVED_CONSTRUCTOR",
        "DERIVED_CONSTRUCTOR",
        "GETTER_FUNCTION",
        "STATIC_GETTER_FUNCTION",
        "SETTER_FUNCTION",
        "STATIC_SETTER_FUNCTION",
        "ARROW_FUNCTION",
        "ASYNC_ARROW_FUNCTION",
        "ASYNC_FUNCTION",
        "ASYNC_CONCISE_METHOD",
        "STATIC_ASYNC_CONCISE_METHOD",
        "ASYNC_CONCISE_GENERATOR_METHOD",
        "STATIC_ASYNC_CONCISE_GENERATOR_METHOD",
        "ASYNC_GENERATOR_FUNCTION",
        "GENERATOR_FUNCTION",
        "CONCISE_GENERATOR_METHOD",
        "STATIC_CONCISE_GENERATOR_METHOD",
        "CONCISE_METHOD",
        "STATIC_CONCISE_METHOD",
        "CLASS_MEMBERS_INITIALIZER_FUNCTION",
        "CLASS_STATIC_INITIALIZER_FUNCTION",
        "INVALID",
    };
    return NAMED(kinds, kind);
}

struct place {
    int64_t line, column; // 0: not known
};

static struct place function_place(const union message_InternedV8JsFunction *entry)
{
    const struct wire_field *line = &entry->line;
    const struct wire_field *column = &entry->column;
    const struct wire_field *offset = &entry->byte_offset;
    if (field_present(line) && field_present(column))
        return (struct place){(uint32_t)field_u64(line), (uint32_t)field_u64(column)};
    return (struct place){field_present(offset), (uint32_t)field_u64(offset)};
}

static int64_t function_write(struct import *im, struct v8 *v8,
                              const union message_InternedV8JsFunction *entry, int64_t script,
                              struct slice_name name)
{
    struct place place = function_place(entry);
    uint64_t kind = field_u64(&entry->kind);
    bool is_toplevel = field_u64(&entry->is_toplevel) != 0;
    // The address of a name identifies the name: equal names have one address.
    int64_t id,
        key[] = {script,      (int64_t)(uintptr_t)name.text, is_toplevel, (int64_t)kind, place.line,
                 place.column};
    if (!row_of(im, &v8->js_functions, &v8->rows_of[1], key, sizeof(key), TABLE_v8_js_function,
                &id))
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE_v8_js_function, id);
    cell_bytes(row, COL_v8_js_function_name, name.text, name.size);
    cell_int(row, COL_v8_js_function_v8_js_script_id, script);
    cell_int(row, COL_v8_js_function_is_toplevel, is_toplevel);
    cell_text(row, COL_v8_js_function_kind, function_kind(kind));
    if (place.line) {
        cell_int(row, COL_v8_js_function_line, place.line);
        cell_int(row, COL_v8_js_function_col, place.column);
    }
    return id;
}

// Returns the name of a function, in strings; STRSET_NONE: the trace lacks the name.
static uint32_t function_name(struct import *im, const struct packet *packet, uint64_t iid)
{
    union message_InternedV8String entry;
    struct interned *known = interned_read(im, packet, PB_InternedData_v8_js_function_name, iid,
                                           entry.at, ELEMENTS(entry.at));
    if (!known)
        return STRSET_NONE;
    union message_V8String text = {
        .latin1 = entry.latin1, .utf16_le = entry.utf16_le, .utf16_be = entry.utf16_be};
    if (!known->made)
        known->made = (int64_t)v8_text(im, &text) + 1;
    return (uint32_t)(known->made - 1);
}

int64_t v8_js_function(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid, struct slice_name *ret_name)
{
    union message_InternedV8JsFunction entry;
    struct interned *known = interned_read(im, packet, PB_InternedData_v8_js_function, iid,
                                           entry.at, ELEMENTS(entry.at));
    if (!known)
        return V8_NONE;
    if (known->made) {
        const struct v8_function *function = &v8->functions.items[known->made - 1];
        *ret_name = slice_name_of(&im->strings, function->name);
        return function->row;
    }
    int64_t script = js_script(im, v8, packet, isolate, field_u64(&entry.v8_js_script_iid));
    uint32_t name = script == V8_NONE
                        ? STRSET_NONE
                        : function_name(im, packet, field_u64(&entry.v8_js_function_name_iid));
    if (name == STRSET_NONE)
        return V8_NONE;
    struct slice_name text = slice_name_of(&im->strings, name);
    struct v8_function function = {.row = function_write(im, v8, &entry, script, text),
                                   .name = name};
    if (function.row != V8_NONE && v8_function_vec_push(&v8->functions, function) < 0)
        import_fail(im, -ENOMEM);
    else if (function.row != V8_NONE)
        known->made = (int64_t)v8->functions.n;
    if (function.row != V8_NONE)
        *ret_name = text;
    return function.row;
}

int64_t v8_wasm_script(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid)
{
    union message_InternedV8WasmScript entry;
    struct interned *known = interned_read(im, packet, PB_InternedData_v8_wasm_script, iid,
                                           entry.at, ELEMENTS(entry.at));
    if (!known || known->made)
        return known ? known->made - 1 : V8_NONE;
    int64_t id, key[] = {isolate, (int32_t)field_u64(&entry.script_id)};
    bool is_new =
        row_of(im, &v8->wasm_scripts, &v8->rows_of[2], key, sizeof(key), TABLE_v8_wasm_script, &id);
    known->made = id + 1;
    if (!is_new)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE_v8_wasm_script, id);
    cell_int(row, COL_v8_wasm_script_v8_isolate_id, v8->isolates.items[isolate].id);
    cell_int(row, COL_v8_wasm_script_internal_script_id, key[1]);
    cell_bytes(row, COL_v8_wasm_script_url, entry.url.data, entry.url.size);
    v8_cell_base64(im, row, COL_v8_wasm_script_wire_bytes_base64, &entry.wire_bytes);
    return id;
}
