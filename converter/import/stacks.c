// SPDX-License-Identifier: Apache-2.0
//
// A call site is a frame and the call site that called it, so chains with a common beginning share
// its rows. Rows are written when first met; their numbers are those of the string sets that know
// them.
#include "converter/import/stacks.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

enum { STRING_IID = 1, STRING_TEXT = 2 }; // InternedString, ProfilePacket's strings

struct stack_source stack_source_interned(const struct generation *state)
{
    return (struct stack_source){
        .state = state,
        .callstacks = PB_InternedData_callstacks,
        .frames = PB_InternedData_frames,
        .mappings = PB_InternedData_mappings,
        .function_names = PB_InternedData_function_names,
        .build_ids = PB_InternedData_build_ids,
        .paths = PB_InternedData_mapping_paths,
    };
}

struct stack_source stack_source_profile_packet(const struct generation *state)
{
    return (struct stack_source){
        .state = state,
        .callstacks = PB_ProfilePacket_callstacks,
        .frames = PB_ProfilePacket_frames,
        .mappings = PB_ProfilePacket_mappings,
        .function_names = PB_ProfilePacket_strings,
        .build_ids = PB_ProfilePacket_strings,
        .paths = PB_ProfilePacket_strings,
    };
}

static struct wire_field interned_string(const struct stack_source *source, uint32_t field,
                                         uint64_t iid)
{
    struct wire_field fields[STRING_TEXT + 1] = {0};
    const struct interned *interned = generation_find(source->state, field, iid);
    if (interned)
        message_read(wire_reader_over(interned->data, interned->size), fields, STRING_TEXT + 1);
    return fields[STRING_TEXT];
}

// The id of `key` in `set`; *ret_new: it was not there before.
static int64_t id_get(struct stacks *stacks, struct strset *set, const void *key, size_t size,
                      bool *ret_new)
{
    size_t n = set->n;
    uint32_t id = strset_add(set, key, size);
    *ret_new = set->n > n;
    if (id == STRSET_NONE)
        stacks->failure = -ENOMEM;
    return id == STRSET_NONE ? -1 : (int64_t)id;
}

static const char *text_keep(struct import *im, const char *text, size_t size)
{
    return strset_text(&im->strings, strset_add(&im->strings, text ? text : "", size));
}

static void path_read(const struct stack_source *source, struct wire_reader mapping,
                      struct strbuf *ret)
{
    struct wire_field field;
    wire_foreach(&mapping, &field) {
        struct wire_packed ids = {0};
        uint64_t iid;
        while (field.number == PB_Mapping_path_string_ids &&
               wire_packed_next(&ids, &field, WIRE_VARINT, &iid)) {
            struct wire_field part = interned_string(source, source->paths, iid);
            // Special mappings ("[heap]") are no files and have no leading slash.
            if (part.size && *part.data != '[')
                strbuf_add_char(ret, '/');
            strbuf_add(ret, part.data ? part.data : (const uint8_t *)"", part.size);
        }
    }
}

static int64_t mapping_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    const struct interned *interned = generation_find(source->state, source->mappings, iid);
    if (!interned)
        return -1;
    struct wire_field part[PB_Mapping_exact_offset + 1];
    struct wire_reader reader = wire_reader_over(interned->data, interned->size);
    message_read(reader, part, PB_Mapping_exact_offset + 1);
    struct wire_field id =
        interned_string(source, source->build_ids, field_u64(&part[PB_Mapping_build_id]));
    CLEANUP(strbuf_done) struct strbuf path = {0}, build_id = {0}, key = {0};
    path_read(source, reader, &path);
    for (size_t i = 0; i < id.size; i++)
        strbuf_addf(&build_id, "%02x", id.data[i]);
    int64_t numbers[] = {
        field_i64(&part[PB_Mapping_exact_offset]), field_i64(&part[PB_Mapping_start_offset]),
        field_i64(&part[PB_Mapping_start]),        field_i64(&part[PB_Mapping_end]),
        field_i64(&part[PB_Mapping_load_bias]),
    };
    strbuf_add(&key, numbers, sizeof(numbers));
    strbuf_add(&key, build_id.text ? build_id.text : "", build_id.size + 1);
    strbuf_add(&key, path.text ? path.text : "", path.size);
    bool is_new;
    int64_t row_id = id_get(&im->stacks, &im->stacks.mappings, key.text, key.size, &is_new);
    if (!is_new || row_id < 0)
        return row_id;
    struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_mapping, row_id);
    cell_text(row, COL_stack_profile_mapping_build_id, text_keep(im, build_id.text, build_id.size));
    cell_int(row, COL_stack_profile_mapping_exact_offset, numbers[0]);
    cell_int(row, COL_stack_profile_mapping_start_offset, numbers[1]);
    cell_int(row, COL_stack_profile_mapping_start, numbers[2]);
    cell_int(row, COL_stack_profile_mapping_end, numbers[3]);
    cell_int(row, COL_stack_profile_mapping_load_bias, numbers[4]);
    cell_text(row, COL_stack_profile_mapping_name, text_keep(im, path.text, path.size));
    return row_id;
}

static int64_t frame_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    const struct interned *interned = generation_find(source->state, source->frames, iid);
    if (!interned)
        return -1;
    struct wire_field part[PB_Frame_rel_pc + 1];
    message_read(wire_reader_over(interned->data, interned->size), part, PB_Frame_rel_pc + 1);
    int64_t mapping = mapping_get(im, source, field_u64(&part[PB_Frame_mapping_id]));
    if (mapping < 0)
        return -1;
    struct wire_field name = interned_string(source, source->function_names,
                                             field_u64(&part[PB_Frame_function_name_id]));
    int64_t numbers[] = {mapping, field_i64(&part[PB_Frame_rel_pc])};
    CLEANUP(strbuf_done) struct strbuf key = {0};
    strbuf_add(&key, numbers, sizeof(numbers));
    strbuf_add(&key, field_text(&name), name.size);
    bool is_new;
    int64_t id = id_get(&im->stacks, &im->stacks.frames, key.text, key.size, &is_new);
    if (!is_new || id < 0)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_frame, id);
    cell_bytes(row, COL_stack_profile_frame_name, field_text(&name), name.size);
    cell_int(row, COL_stack_profile_frame_mapping, mapping);
    cell_int(row, COL_stack_profile_frame_rel_pc, numbers[1]);
    return id;
}

static int64_t callsite_get(struct import *im, int64_t parent, int64_t frame, int64_t depth)
{
    int64_t key[] = {parent, frame};
    bool is_new;
    int64_t id = id_get(&im->stacks, &im->stacks.callsites, key, sizeof(key), &is_new);
    if (!is_new || id < 0)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_callsite, id);
    cell_int(row, COL_stack_profile_callsite_depth, depth);
    if (parent != CALLSITE_NONE)
        cell_int(row, COL_stack_profile_callsite_parent_id, parent);
    cell_int(row, COL_stack_profile_callsite_frame_id, frame);
    return id;
}

int64_t stacks_callsite(struct import *im, const struct stack_source *source,
                        uint64_t callstack_iid)
{
    const struct interned *interned =
        generation_find(source->state, source->callstacks, callstack_iid);
    if (!interned)
        return CALLSITE_NONE;
    struct wire_reader reader = wire_reader_over(interned->data, interned->size);
    struct wire_field field;
    int64_t callsite = CALLSITE_NONE, depth = 0;
    wire_foreach(&reader, &field) {
        struct wire_packed ids = {0};
        uint64_t iid;
        while (field.number == PB_Callstack_frame_ids &&
               wire_packed_next(&ids, &field, WIRE_VARINT, &iid)) {
            int64_t frame = frame_get(im, source, iid);
            if (frame < 0)
                return CALLSITE_NONE;
            callsite = callsite_get(im, callsite, frame, depth++);
            if (callsite < 0)
                return CALLSITE_NONE;
        }
    }
    return callsite;
}

void stacks_done(struct stacks *stacks)
{
    strset_done(&stacks->mappings);
    strset_done(&stacks->frames);
    strset_done(&stacks->callsites);
}
