// SPDX-License-Identifier: Apache-2.0
//
// EXPERIMENTAL_PROFILE(stack[, type, unit, value]...): an aggregate that makes a profile for pprof,
// not compressed. Samples of the same stack are added up. Annotations of callsites are left out.
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/wire.h"
#include "converter/functions/stack_values.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define DEPTH_MAX 65536

// Fields of the messages, see converter/profile/pprof.proto.
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_TEXT = 6,
};

enum {
    FRAME_OF_CALLSITE,
    FRAME,
    SYMBOLS,
    N_QUERIES,
};

#define FRAME_SQL                                                                                  \
    "SELECT coalesce(f.deobfuscated_name, demangle(f.name), f.name), f.name, f.rel_pc, "           \
    "f.symbol_set_id, m.id, m.start, m.\"end\", m.exact_offset, m.name, m.build_id "               \
    "FROM stack_profile_frame f LEFT JOIN stack_profile_mapping m ON m.id = f.mapping "            \
    "WHERE f.id = ?1"
#define SYMBOLS_SQL                                                                                \
    "SELECT name, source_file, line_number FROM stack_profile_symbol "                             \
    "WHERE symbol_set_id = ?1 ORDER BY id"

static const char *const queries[N_QUERIES] = {
    [FRAME_OF_CALLSITE] = "SELECT frame_id, parent_id FROM stack_profile_callsite WHERE id = ?1",
    [FRAME] = FRAME_SQL,
    [SYMBOLS] = SYMBOLS_SQL,
};

VEC_DEFINE(location_vec, uint32_t);

struct profile {
    sqlite3 *handle;                     // borrowed
    sqlite3_stmt *statements[N_QUERIES]; // owned
    size_t n_values;                     // of each sample
    struct strset texts;                 // the string table
    struct strset stacks;                // the locations of each sample
    struct int64_vec values;             // by sample, then by value
    struct map64 functions;              // id by name << 32 | file
    struct map64 mappings;               // id by the table's id
    struct map64 frames;                 // id of the location by frame
    struct map64 names;                  // id of the location by text
    // By callsite: a place in `found`, which has the number of locations there, then the locations.
    struct map64 callsites;
    struct location_vec found;
    uint32_t n_locations;
    struct location_vec stack; // of the current sample
    struct byte_vec out;       // the messages that are complete
    const char *error;
    bool failed; // out of memory
};

static void profile_free(struct profile *profile)
{
    for (int i = 0; i < N_QUERIES; i++)
        sqlite3_finalize(profile->statements[i]);
    strset_done(&profile->texts);
    strset_done(&profile->stacks);
    int64_vec_done(&profile->values);
    map64_done(&profile->functions);
    map64_done(&profile->mappings);
    map64_done(&profile->frames);
    map64_done(&profile->names);
    map64_done(&profile->callsites);
    location_vec_done(&profile->found);
    location_vec_done(&profile->stack);
    byte_vec_done(&profile->out);
    free(profile);
}

// -- writing: each message is made in a separate vector and then put after the others --

static void bytes_put(struct profile *profile, struct byte_vec *to, const void *bytes, size_t size)
{
    if (size == 0 || profile->failed)
        return;
    profile->failed = byte_vec_reserve(to, to->n + size) < 0;
    if (!profile->failed) {
        memcpy(to->items + to->n, bytes, size);
        to->n += size;
    }
}

static void varint_put(struct profile *profile, struct byte_vec *to, uint64_t value)
{
    uint8_t bytes[WIRE_VARINT_MAX];
    bytes_put(profile, to, bytes, (size_t)(wire_put_varint(bytes, value) - bytes));
}

static void number_put(struct profile *profile, struct byte_vec *to, uint32_t field, uint64_t value)
{
    varint_put(profile, to, (uint64_t)field << 3 | WIRE_VARINT);
    varint_put(profile, to, value);
}

static void field_put(struct profile *profile, struct byte_vec *to, uint32_t field,
                      const void *bytes, size_t size)
{
    varint_put(profile, to, (uint64_t)field << 3 | WIRE_BYTES);
    varint_put(profile, to, size);
    bytes_put(profile, to, bytes, size);
}

// Puts a message after the others and empties its vector.
static void message_put(struct profile *profile, uint32_t field, struct byte_vec *message)
{
    field_put(profile, &profile->out, field, message->items, message->n);
    byte_vec_done(message);
}

static uint32_t text_id(struct profile *profile, const char *text)
{
    uint32_t id = text ? strset_add(&profile->texts, text, strlen(text)) : 0;
    profile->failed |= id == STRSET_NONE;
    return id == STRSET_NONE ? 0 : id;
}

static const char *column(sqlite3_stmt *statement, int n)
{
    return (const char *)sqlite3_column_text(statement, n);
}

// Runs a query for an id, up to its first row. If there is no row, returns NULL and sets
// profile->error.
static sqlite3_stmt *query(struct profile *profile, int number, int64_t id)
{
    sqlite3_stmt **statement = &profile->statements[number];
    if (!*statement &&
        sqlite3_prepare_v2(profile->handle, queries[number], -1, statement, NULL) != SQLITE_OK) {
        profile->error = "profile: the database has no tables of stacks";
        return NULL;
    }
    sqlite3_reset(*statement);
    sqlite3_bind_int64(*statement, 1, id);
    if (sqlite3_step(*statement) == SQLITE_ROW)
        return *statement;
    sqlite3_reset(*statement);
    profile->error = "profile: a stack has a callsite or a frame that the tables lack";
    return NULL;
}

// Returns the id of the item with the key `key`. *ret_new: the item is new, and the caller has to
// write the item.
static uint32_t id_of(struct profile *profile, struct map64 *map, uint64_t key, uint32_t next,
                      bool *ret_new)
{
    uint64_t *id = map64_get_or_add(map, key, next, ret_new);
    profile->failed |= !id;
    return id ? (uint32_t)*id : 0;
}

static uint32_t function_id(struct profile *profile, uint32_t name, uint32_t system_name,
                            uint32_t file)
{
    bool is_new = false;
    uint32_t id = id_of(profile, &profile->functions, (uint64_t)name << 32 | file,
                        (uint32_t)profile->functions.n + 1, &is_new);
    if (!is_new)
        return id;
    struct byte_vec message = {0};
    number_put(profile, &message, 1, id);
    number_put(profile, &message, 2, name);
    number_put(profile, &message, 3, system_name);
    number_put(profile, &message, 4, file);
    message_put(profile, PROFILE_FUNCTION, &message);
    return id;
}

static void line_put(struct profile *profile, struct byte_vec *location, uint32_t function,
                     int64_t line)
{
    struct byte_vec message = {0};
    number_put(profile, &message, 1, function);
    if (line)
        number_put(profile, &message, 2, (uint64_t)line);
    field_put(profile, location, 4, message.items, message.n);
    byte_vec_done(&message);
}

// Returns the id of the mapping in a frame's row.
static uint32_t mapping_id(struct profile *profile, sqlite3_stmt *row)
{
    bool is_new = false;
    if (sqlite3_column_type(row, 4) == SQLITE_NULL)
        return 0;
    uint32_t id = id_of(profile, &profile->mappings, (uint64_t)sqlite3_column_int64(row, 4),
                        (uint32_t)profile->mappings.n + 1, &is_new);
    if (!is_new)
        return id;
    struct byte_vec message = {0};
    number_put(profile, &message, 1, id);
    for (uint32_t i = 0; i < 3; i++)
        number_put(profile, &message, 2 + i, (uint64_t)sqlite3_column_int64(row, 5 + (int)i));
    number_put(profile, &message, 5, text_id(profile, column(row, 8)));
    number_put(profile, &message, 6, text_id(profile, column(row, 9)));
    number_put(profile, &message, 7, 1); // has functions
    message_put(profile, PROFILE_MAPPING, &message);
    return id;
}

// Appends the lines of a location: its inlined functions, innermost first, or the frame's own name.
static void lines_put(struct profile *profile, struct byte_vec *location, sqlite3_stmt *frame)
{
    uint32_t name = text_id(profile, column(frame, 0));
    uint32_t system_name = text_id(profile, column(frame, 1));
    sqlite3_stmt *symbols = NULL;
    if (sqlite3_column_type(frame, 3) != SQLITE_NULL) {
        symbols = query(profile, SYMBOLS, sqlite3_column_int64(frame, 3));
        if (!symbols)
            profile->error = NULL; // an empty set
    }
    if (!symbols && (name || system_name))
        line_put(profile, location, function_id(profile, name, system_name, 0), 0);
    if (!symbols)
        return;
    do {
        uint32_t symbol = text_id(profile, column(symbols, 0));
        uint32_t file = text_id(profile, column(symbols, 1));
        line_put(profile, location, function_id(profile, symbol, 0, file),
                 sqlite3_column_int64(symbols, 2));
    } while (sqlite3_step(symbols) == SQLITE_ROW);
    sqlite3_reset(symbols);
}

static uint32_t frame_location(struct profile *profile, int64_t frame_id)
{
    bool is_new = false;
    uint32_t id =
        id_of(profile, &profile->frames, (uint64_t)frame_id, profile->n_locations + 1, &is_new);
    sqlite3_stmt *frame = is_new ? query(profile, FRAME, frame_id) : NULL;
    if (!frame)
        return id;
    profile->n_locations++;
    struct byte_vec message = {0};
    number_put(profile, &message, 1, id);
    number_put(profile, &message, 2, mapping_id(profile, frame));
    number_put(profile, &message, 3,
               (uint64_t)sqlite3_column_int64(frame, 2) + (uint64_t)sqlite3_column_int64(frame, 5));
    lines_put(profile, &message, frame);
    message_put(profile, PROFILE_LOCATION, &message);
    sqlite3_reset(frame);
    return id;
}

static uint32_t name_location(struct profile *profile, const struct wire_field *name)
{
    uint32_t text = strset_add(&profile->texts, (const char *)name->data, name->size);
    bool is_new = false;
    profile->failed |= text == STRSET_NONE;
    uint32_t id = id_of(profile, &profile->names, text, profile->n_locations + 1, &is_new);
    if (!is_new || profile->failed)
        return id;
    profile->n_locations++;
    struct byte_vec message = {0};
    number_put(profile, &message, 1, id);
    line_put(profile, &message, function_id(profile, text, 0, 0), 0);
    message_put(profile, PROFILE_LOCATION, &message);
    return id;
}

// Finds the locations of a callsite and of its callers. The locations are kept, because many
// samples have the same callsite.
static uint32_t callsite_find(struct profile *profile, int64_t callsite)
{
    bool is_new = false, has_parent = true;
    uint32_t begin = (uint32_t)profile->found.n, n = 0;
    uint32_t at = id_of(profile, &profile->callsites, (uint64_t)callsite, begin, &is_new);
    if (!is_new || profile->failed)
        return at;
    profile->failed |= location_vec_push(&profile->found, 0) < 0;
    while (has_parent && !profile->failed && !profile->error) {
        sqlite3_stmt *row = query(profile, FRAME_OF_CALLSITE, callsite);
        if (!row)
            break;
        has_parent = sqlite3_column_type(row, 1) != SQLITE_NULL;
        callsite = sqlite3_column_int64(row, 1);
        uint32_t location = frame_location(profile, sqlite3_column_int64(row, 0));
        profile->failed |= location_vec_push(&profile->found, location) < 0;
        if (++n == DEPTH_MAX)
            profile->error = "profile: a callsite is its own ancestor, or far too deep";
    }
    if (!profile->failed)
        profile->found.items[begin] = n;
    return begin;
}

static void callsite_add(struct profile *profile, int64_t callsite)
{
    uint32_t at = callsite_find(profile, callsite);
    if (profile->failed || profile->error)
        return;
    for (uint32_t i = 1; i <= profile->found.items[at]; i++)
        profile->failed |= location_vec_push(&profile->stack, profile->found.items[at + i]) < 0;
}

static void entry_add(struct profile *profile, const struct wire_field *entry)
{
    struct wire_reader reader = wire_sub(entry);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == STACK_NAME && field.type == WIRE_BYTES)
            profile->failed |=
                location_vec_push(&profile->stack, name_location(profile, &field)) < 0;
        else if (field.number == STACK_FRAME && field.type == WIRE_VARINT)
            profile->failed |= location_vec_push(&profile->stack,
                                                 frame_location(profile, (int64_t)field.value)) < 0;
        else if (field.type == WIRE_VARINT &&
                 (field.number == STACK_CALLSITE || field.number == STACK_ANNOTATED_CALLSITE))
            callsite_add(profile, (int64_t)field.value);
    }
    if (reader.error)
        profile->error = "profile: the stack is damaged";
}

// Adds up the values of equal stacks.
static void sample_add(struct profile *profile, int argc, sqlite3_value **argv)
{
    uint32_t sample = strset_add(&profile->stacks, (const char *)profile->stack.items,
                                 profile->stack.n * sizeof(*profile->stack.items));
    size_t first = (size_t)sample * profile->n_values;
    profile->failed |= sample == STRSET_NONE;
    while (!profile->failed && profile->values.n < first + profile->n_values)
        profile->failed = int64_vec_push(&profile->values, 0) < 0;
    for (size_t i = 0; i < profile->n_values && !profile->failed; i++) {
        int64_t value = argc == 1 ? 1 : sqlite3_value_int64(argv[3 + 3 * i]);
        int64_t *sum = &profile->values.items[first + i];
        if (__builtin_add_overflow(*sum, value, sum))
            profile->error = "profile: the sum of a stack's values is too large";
    }
}

static const char *arguments_check(int argc, sqlite3_value **argv)
{
    if (argc < 1 || (argc - 1) % 3)
        return "profile: a stack and triples of a type, a unit and a value are expected";
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB)
        return "profile: the stack must be a BLOB, made by cat_stacks() or stack_from_...()";
    for (int i = 1; i < argc; i += 3)
        if (sqlite3_value_type(argv[i]) != SQLITE_TEXT ||
            sqlite3_value_type(argv[i + 1]) != SQLITE_TEXT ||
            sqlite3_value_type(argv[i + 2]) != SQLITE_INTEGER)
            return "profile: a type and a unit must be texts, a value an integer";
    return NULL;
}

static void types_put(struct profile *profile, int argc, sqlite3_value **argv)
{
    profile->n_values = argc == 1 ? 1 : (size_t)(argc - 1) / 3;
    text_id(profile, "");
    for (size_t i = 0; i < profile->n_values; i++) {
        struct byte_vec message = {0};
        for (uint32_t k = 0; k < 2; k++) {
            const char *text = argc == 1 ? (k ? "count" : "samples")
                                         : (const char *)sqlite3_value_text(argv[1 + 3 * i + k]);
            number_put(profile, &message, 1 + k, text_id(profile, text));
        }
        message_put(profile, PROFILE_SAMPLE_TYPE, &message);
    }
}

static void profile_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *why = arguments_check(argc, argv);
    struct profile *profile = why ? NULL : aggregate_get(context, sizeof(*profile));
    if (profile) {
        if (!profile->handle)
            types_put(profile, argc, argv);
        profile->handle = sqlite3_context_db_handle(context);
        location_vec_clear(&profile->stack);
        struct wire_reader reader =
            wire_reader_over(sqlite3_value_blob(argv[0]), (size_t)sqlite3_value_bytes(argv[0]));
        struct wire_field field;
        size_t n_entries = 0;
        while (!profile->failed && !profile->error && wire_next(&reader, &field))
            if (field.number == STACK_ENTRY && field.type == WIRE_BYTES) {
                entry_add(profile, &field);
                n_entries++;
            }
        if (reader.error)
            profile->error = "profile: the stack is damaged";
        if (n_entries && !profile->failed && !profile->error)
            sample_add(profile, argc, argv);
        why = profile->error;
        if (!why && profile->failed)
            sqlite3_result_error_nomem(context);
    }
    if (why)
        sqlite3_result_error(context, why, -1);
}

static void samples_put(struct profile *profile)
{
    for (uint32_t i = 0; i < profile->stacks.n && !profile->failed; i++) {
        const struct strset_entry *stack = &profile->stacks.entries[i];
        struct byte_vec message = {0}, packed = {0};
        for (size_t k = 0; k + sizeof(uint32_t) <= stack->size; k += sizeof(uint32_t)) {
            uint32_t location;
            memcpy(&location, stack->text + k, sizeof(location));
            varint_put(profile, &packed, location);
        }
        field_put(profile, &message, 1, packed.items, packed.n);
        byte_vec_clear(&packed);
        for (size_t k = 0; k < profile->n_values; k++)
            varint_put(profile, &packed,
                       (uint64_t)profile->values.items[i * profile->n_values + k]);
        field_put(profile, &message, 2, packed.items, packed.n);
        message_put(profile, PROFILE_SAMPLE, &message);
        byte_vec_done(&packed);
    }
}

static void profile_final(sqlite3_context *context)
{
    struct profile *profile = aggregate_take(context);
    if (!profile)
        return;
    samples_put(profile);
    for (uint32_t i = 0; i < profile->texts.n && !profile->failed; i++)
        field_put(profile, &profile->out, PROFILE_TEXT, profile->texts.entries[i].text,
                  profile->texts.entries[i].size);
    if (profile->failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_blob64(context, profile->out.items, profile->out.n, SQLITE_TRANSIENT);
    profile_free(profile);
}

int profile_function_register(sqlite3 *handle)
{
    return sqlite3_create_function_v2(handle, "experimental_profile", -1, SQLITE_UTF8, NULL, NULL,
                                      profile_step, profile_final, NULL);
}
