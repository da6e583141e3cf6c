// SPDX-License-Identifier: Apache-2.0
//
// ModuleSymbols: names of addresses, found after the recording. These packets may be anywhere in a
// trace, so they are kept until all frames are known.
#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define BUILD_ID_MAX 64 // bytes

VEC_DEFINE(message_vec, struct wire_field);
VEC_DEFINE(number_vec, int64_t);
VEC_DEFINE(place_vec, uint32_t);

struct kept {
    struct message_vec messages;
    struct map64 functions; // hash of a file and an address -> function, in strings
    bool has_functions;     // the map is made
};

static void keep_now(struct import *im, const struct packet *packet)
{
    (void)im;
    struct kept *kept = packet->own;
    import_fail(im, message_vec_push(&kept->messages, *packet->message));
}

static void kept_done(void *userdata)
{
    struct kept *kept = userdata;
    message_vec_done(&kept->messages);
    map64_done(&kept->functions);
}

extern const struct importer importer_module_symbols; // has the state

// Places are addresses in files. Several frames with different names may be at the same place.
struct places {
    struct map64 files;    // file_key() -> 1
    struct strset keys;    // file and address; ids are indexes in `set` and `line`
    struct number_vec set; // symbol set of each place, or STACK_NONE
    struct place_vec line; // first line of the set, or 0
    struct place_vec of;   // place of each frame, by the frame's row
};

static uint64_t file_key(uint32_t name, uint32_t build_id)
{
    return (uint64_t)name << 32 | build_id;
}

static int places_make(const struct stacks *stacks, struct places *places)
{
    int r = 0;
    for (size_t i = 0; i < stacks->mapping_rows.n && r == 0; i++) {
        const struct stack_mapping *mapping = &stacks->mapping_rows.items[i];
        r = map64_set(&places->files, file_key(mapping->name, mapping->build_id), 1);
    }
    for (size_t i = 0; i < stacks->frame_rows.n && r == 0; i++) {
        const struct stack_frame *frame = &stacks->frame_rows.items[i];
        const struct stack_mapping *mapping = &stacks->mapping_rows.items[frame->mapping];
        uint64_t key[] = {file_key(mapping->name, mapping->build_id), (uint64_t)frame->rel_pc};
        uint32_t place = strset_add(&places->keys, (const char *)key, sizeof(key));
        r = place == STRSET_NONE ? -ENOMEM : place_vec_push(&places->of, place);
        if (r == 0 && place == places->set.n)
            r = number_vec_push(&places->set, STACK_NONE);
        if (r == 0 && place == places->line.n)
            r = place_vec_push(&places->line, 0);
    }
    return r;
}

static void places_done(struct places *places)
{
    map64_done(&places->files);
    strset_done(&places->keys);
    number_vec_done(&places->set);
    place_vec_done(&places->line);
    place_vec_done(&places->of);
}

// Writes the rows of an AddressSymbols. Returns the set of the rows; STACK_NONE: no lines.
// *ret_line: the first line, or 0.
static int64_t lines_write(struct import *im, const struct wire_field *message, uint32_t *ret_line)
{
    int64_t set = STACK_NONE;
    *ret_line = 0;
    for (struct fields each = fields_of(message, PB_AddressSymbols_lines); fields_next(&each);) {
        MESSAGE(line, Line, &each.field);
        const struct wire_field *name = &line.function_name;
        const struct wire_field *file = &line.source_file_name;
        bool has_line = file->size && field_present(&line.line_number);
        set = stacks_symbol(im, set, import_keep(im, name),
                            file->size ? import_keep(im, file) : STRSET_NONE,
                            has_line ? (uint32_t)field_u64(&line.line_number) : -1LL, -1);
        if (has_line && !*ret_line)
            *ret_line = (uint32_t)field_u64(&line.line_number);
    }
    return set;
}

// Returns the id in strings of the build id as hex digits, as mappings have build ids.
static uint32_t build_id_keep(struct import *im, const struct wire_field *bytes)
{
    CLEANUP(strbuf_done) struct strbuf hex = {0};
    for (size_t i = 0; i < bytes->size && i < BUILD_ID_MAX; i++)
        strbuf_addf(&hex, "%02x", bytes->data[i]);
    return import_strbuf_keep(im, &hex);
}

static void symbols_read(struct import *im, struct places *places, const struct wire_field *message)
{
    MESSAGE(head, ModuleSymbols, message);
    uint32_t name = strset_find(&im->strings, field_text(&head.path), head.path.size);
    uint32_t build_id = build_id_keep(im, &head.build_id);
    if (name == STRSET_NONE || build_id == STRSET_NONE ||
        !map64_find(&places->files, file_key(name, build_id))) {
        stats_add(&im->stats, STAT_stackprofile_invalid_mapping_id, 1);
        return;
    }
    for (struct fields each = fields_of(message, PB_ModuleSymbols_address_symbols);
         fields_next(&each);) {
        MESSAGE(part, AddressSymbols, &each.field);
        uint64_t key[] = {file_key(name, build_id), field_u64(&part.address)};
        uint32_t place = strset_find(&places->keys, (const char *)key, sizeof(key));
        uint32_t line;
        int64_t set = lines_write(im, &each.field, &line);
        if (set >= 0 && place != STRSET_NONE) {
            places->set.items[place] = set;
            places->line.items[place] = line;
        } else if (set >= 0)
            stats_add(&im->stats, STAT_stackprofile_invalid_frame_id, 1);
    }
}

static void module_symbols_finish(struct import *im, void *userdata)
{
    const struct kept *kept = userdata;
    const struct stacks *stacks = stacks_of(im);
    for (size_t i = 0; i < stacks->mapping_rows.n; i++) {
        const struct strset_entry *name = &im->strings.entries[stacks->mapping_rows.items[i].name];
        uint32_t id = stacks->mapping_rows.items[i].build_id;
        if (str_starts_with(name->text, "/data/local/tmp/") && !im->strings.entries[id].size)
            stats_add(&im->stats, STAT_symbolization_tmp_build_id_not_found, 1);
    }
    if (!kept->messages.n)
        return;
    CLEANUP(places_done) struct places places = {0};
    int r = places_make(stacks, &places);
    for (size_t i = 0; r == 0 && i < kept->messages.n; i++)
        symbols_read(im, &places, &kept->messages.items[i]);
    for (size_t i = 0; r == 0 && i < places.of.n; i++) {
        uint32_t place = places.of.items[i];
        if (places.set.items[place] == STACK_NONE)
            continue;
        stacks->frame_rows.items[i].symbol_set = places.set.items[place];
        stacks->frame_rows.items[i].line = places.line.items[place];
    }
    import_fail(im, r);
}

static uint64_t function_key(uint32_t name, uint32_t build_id, uint64_t address)
{
    uint64_t key[] = {file_key(name, build_id), address};
    return hash_bytes(key, sizeof(key));
}

// Notes the functions of a message. The last line of an address has the function around the inlined
// functions.
static void functions_read(struct import *im, struct kept *kept, const struct wire_field *message)
{
    MESSAGE(head, ModuleSymbols, message);
    uint32_t name = import_keep(im, &head.path);
    uint32_t build_id = build_id_keep(im, &head.build_id);
    for (struct fields each = fields_of(message, PB_ModuleSymbols_address_symbols);
         fields_next(&each);) {
        MESSAGE(part, AddressSymbols, &each.field);
        struct wire_field last = {0};
        for (struct fields lines = fields_of(&each.field, PB_AddressSymbols_lines);
             fields_next(&lines);)
            last = lines.field;
        MESSAGE(line, Line, &last);
        if (last.data)
            import_map_set(im, &kept->functions,
                           function_key(name, build_id, field_u64(&part.address)),
                           import_keep(im, &line.function_name));
    }
}

uint32_t symbols_function(struct import *im, int64_t mapping, uint64_t rel_pc)
{
    struct kept *kept = importer_state(im, &importer_module_symbols);
    for (size_t i = 0; !kept->has_functions && i < kept->messages.n; i++)
        functions_read(im, kept, &kept->messages.items[i]);
    kept->has_functions = true;
    const struct stack_mapping *row = &stacks_of(im)->mapping_rows.items[mapping];
    const uint64_t *function =
        map64_find(&kept->functions, function_key(row->name, row->build_id, rel_pc));
    return function ? (uint32_t)*function : STRSET_NONE;
}

const struct importer importer_module_symbols = {
    .field = PB_TracePacket_module_symbols,
    .now = keep_now,
    .state_size = sizeof(struct kept),
    .of_all_machines = true,
    .finish = module_symbols_finish,
    .done = kept_done,
};
