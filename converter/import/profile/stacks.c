// SPDX-License-Identifier: Apache-2.0
//
// A call site is a frame and the call site that called it, so chains with a common beginning share
// its rows. Rows have the numbers of the string sets that know them. Mappings and call sites are
// written when first met, frames at the end, because symbols mostly come last in a trace.
#include "converter/import/profile/stacks.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PATH_MAX_BYTES 65536
#define BUILD_ID_MAX   64

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
        .files = PB_InternedData_source_paths,
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
        .files = PB_ProfilePacket_strings,
    };
}

// Number 0 stands for the empty string. False: the trace does not have it.
static bool interned_string(struct import *im, const struct stack_source *source, uint32_t field,
                            uint64_t iid, struct wire_field *ret)
{
    struct wire_field fields[STRING_TEXT + 1] = {0};
    const struct interned *interned = iid ? generation_find(source->state, field, iid) : NULL;
    if (interned)
        message_read(wire_reader_over(interned->data, interned->size), fields, STRING_TEXT + 1);
    else if (iid)
        stats_add(&im->stats, STAT_stackprofile_invalid_string_id, 1);
    *ret = fields[STRING_TEXT];
    return interned || !iid;
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

static uint32_t text_keep(struct import *im, const char *text, size_t size)
{
    return strset_add(&im->strings, text ? text : "", size);
}

static void path_read(struct import *im, const struct stack_source *source,
                      struct wire_reader mapping, struct strbuf *ret)
{
    struct wire_field field, part;
    bool known = true;
    while (known && ret->size <= PATH_MAX_BYTES && wire_next(&mapping, &field)) {
        struct wire_packed ids = {0};
        uint64_t iid;
        while (known && ret->size <= PATH_MAX_BYTES && field.number == PB_Mapping_path_string_ids &&
               wire_packed_next(&ids, &field, WIRE_VARINT, &iid)) {
            known = interned_string(im, source, source->paths, iid, &part);
            if (known && (ret->size || !part.size || *part.data != '/'))
                strbuf_add_char(ret, '/');
            if (known)
                strbuf_add(ret, field_text(&part), part.size);
        }
    }
}

int64_t stacks_mapping(struct import *im, uint32_t name, uint32_t build_id,
                       const int64_t numbers[5])
{
    struct stacks *stacks = &im->stacks;
    int64_t key[] = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], name, build_id};
    bool is_new;
    int64_t id = id_get(stacks, &stacks->mappings, key, sizeof(key), &is_new);
    if (!is_new || id < 0)
        return id;
    if (stack_mapping_vec_push(&stacks->mapping_rows, (struct stack_mapping){name, build_id}) < 0)
        stacks->failure = -ENOMEM;
    struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_mapping, id);
    cell_text(row, COL_stack_profile_mapping_build_id, strset_text(&im->strings, build_id));
    cell_int(row, COL_stack_profile_mapping_exact_offset, numbers[0]);
    cell_int(row, COL_stack_profile_mapping_start_offset, numbers[1]);
    cell_int(row, COL_stack_profile_mapping_start, numbers[2]);
    cell_int(row, COL_stack_profile_mapping_end, numbers[3]);
    cell_int(row, COL_stack_profile_mapping_load_bias, numbers[4]);
    cell_text(row, COL_stack_profile_mapping_name, strset_text(&im->strings, name));
    return id;
}

// Frames without mapping belong to this one, which spans all addresses.
static int64_t mapping_of_nothing(struct import *im)
{
    const int64_t numbers[5] = {[3] = -1};
    uint32_t empty = text_keep(im, "", 0);
    return stacks_mapping(im, empty, empty, numbers);
}

static int64_t mapping_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    bool has_none = !iid && source->mappings == PB_InternedData_mappings;
    const struct interned *interned =
        has_none ? NULL : generation_find(source->state, source->mappings, iid);
    if (!interned && !iid)
        return mapping_of_nothing(im);
    if (!interned) {
        stats_add(&im->stats, STAT_stackprofile_invalid_mapping_id, 1);
        return STACK_NONE;
    }
    struct wire_field part[PB_Mapping_exact_offset + 1], id;
    struct wire_reader reader = wire_reader_over(interned->data, interned->size);
    message_read(reader, part, PB_Mapping_exact_offset + 1);
    if (!interned_string(im, source, source->build_ids, field_u64(&part[PB_Mapping_build_id]), &id))
        return STACK_NONE;
    CLEANUP(strbuf_done) struct strbuf path = {0}, build_id = {0};
    path_read(im, source, reader, &path);
    for (size_t i = 0; i < id.size && i < BUILD_ID_MAX; i++)
        strbuf_addf(&build_id, "%02x", id.data[i]);
    int64_t numbers[] = {
        field_i64(&part[PB_Mapping_exact_offset]), field_i64(&part[PB_Mapping_start_offset]),
        field_i64(&part[PB_Mapping_start]),        field_i64(&part[PB_Mapping_end]),
        field_i64(&part[PB_Mapping_load_bias]),
    };
    return stacks_mapping(im, text_keep(im, path.text, path.size),
                          text_keep(im, build_id.text, build_id.size), numbers);
}

int64_t stacks_symbol(struct import *im, int64_t set, uint32_t name, uint32_t file, int64_t line,
                      int inlined)
{
    if (set == SYMBOL_SET_NEW)
        set = im->stacks.n_symbols;
    struct cell *row =
        database_row_with_id(im->db, TABLE_stack_profile_symbol, im->stacks.n_symbols++);
    cell_int(row, COL_stack_profile_symbol_symbol_set_id, set);
    cell_text(row, COL_stack_profile_symbol_name, strset_text(&im->strings, name));
    cell_text(row, COL_stack_profile_symbol_source_file, strset_text(&im->strings, file));
    if (line >= 0)
        cell_int(row, COL_stack_profile_symbol_line_number, line);
    if (inlined >= 0)
        cell_int(row, COL_stack_profile_symbol_inlined, inlined);
    return set;
}

int64_t stacks_frame(struct import *im, int64_t mapping, int64_t rel_pc, uint32_t name,
                     uint32_t file, uint32_t line, uint32_t type)
{
    struct stacks *stacks = &im->stacks;
    if (mapping == STACK_NONE)
        mapping = mapping_of_nothing(im);
    int64_t key[] = {mapping, rel_pc, name, file, line};
    bool is_new;
    int64_t id = id_get(stacks, &stacks->frames, key, sizeof(key), &is_new);
    if (id < 0)
        return id;
    if (!is_new) {
        if (type != STRSET_NONE)
            stacks->frame_rows.items[id].type = type;
        return id;
    }
    struct stack_frame frame = {
        .mapping = mapping,
        .rel_pc = rel_pc,
        .symbol_set = STACK_NONE,
        .line = line,
        .name = name,
        .deobfuscated = STRSET_NONE,
        .type = type,
        .next_at_address = STACK_NONE,
        .next_of_name = STACK_NONE,
    };
    if (file != STRSET_NONE || line)
        frame.symbol_set = stacks_symbol(im, SYMBOL_SET_NEW, name, file, line ? line : -1LL, -1);
    if (stack_frame_vec_push(&stacks->frame_rows, frame) < 0)
        stacks->failure = -ENOMEM;
    return stacks->failure < 0 ? STACK_NONE : id;
}

static uint32_t frame_type(struct import *im, const struct wire_field *part)
{
    static const char *const kinds[] = {
        NULL, "native", "kernel", "interpreted", "jit", "gc", "runtime",
    };
    const struct wire_field *text = &part[PB_Frame_kind_str];
    if (field_present(text))
        return text_keep(im, field_text(text), text->size);
    uint64_t kind = field_u64(&part[PB_Frame_kind]);
    if (!kind || kind >= sizeof(kinds) / sizeof(kinds[0]))
        return STRSET_NONE;
    return text_keep(im, kinds[kind], strlen(kinds[kind]));
}

static int64_t frame_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    const struct interned *interned = generation_find(source->state, source->frames, iid);
    if (!interned) {
        stats_add(&im->stats, STAT_stackprofile_invalid_frame_id, 1);
        return STACK_NONE;
    }
    struct wire_field part[PB_Frame_kind_str + 1], name, file;
    message_read(wire_reader_over(interned->data, interned->size), part, PB_Frame_kind_str + 1);
    int64_t mapping = mapping_get(im, source, field_u64(&part[PB_Frame_mapping_id]));
    if (mapping < 0)
        return STACK_NONE;
    // Without its name a frame still has its address.
    interned_string(im, source, source->function_names, field_u64(&part[PB_Frame_function_name_id]),
                    &name);
    uint64_t file_iid = field_u64(&part[PB_Frame_source_path_iid]);
    uint32_t file_name = STRSET_NONE;
    if (file_iid && interned_string(im, source, source->files, file_iid, &file))
        file_name = text_keep(im, field_text(&file), file.size);
    return stacks_frame(im, mapping, field_i64(&part[PB_Frame_rel_pc]),
                        text_keep(im, field_text(&name), name.size), file_name,
                        (uint32_t)field_u64(&part[PB_Frame_line_number]), frame_type(im, part));
}

int64_t stacks_child(struct import *im, int64_t parent, int64_t frame, int64_t depth)
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

bool stacks_has_callstack(const struct stack_source *source, uint64_t callstack_iid)
{
    return generation_find(source->state, source->callstacks, callstack_iid) != NULL;
}

static int64_t callsite_read(struct import *im, const struct stack_source *source,
                             uint64_t callstack_iid)
{
    const struct interned *interned =
        generation_find(source->state, source->callstacks, callstack_iid);
    if (!interned) {
        stats_add(&im->stats, STAT_stackprofile_invalid_callstack_id, 1);
        return CALLSITE_NONE;
    }
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
            callsite = stacks_child(im, callsite, frame, depth++);
            if (callsite < 0)
                return CALLSITE_NONE;
        }
    }
    if (callsite == CALLSITE_NONE)
        stats_add(&im->stats, STAT_stackprofile_empty_callstack, 1);
    return callsite;
}

int64_t stacks_callsite(struct import *im, const struct stack_source *source,
                        uint64_t callstack_iid)
{
    struct stacks *stacks = &im->stacks;
    const struct interned_table *table = source->state->interned;
    // Tables of old packets do not last.
    if (source->callstacks != PB_InternedData_callstacks || !table)
        return callsite_read(im, source, callstack_iid);
    if (stacks->cached_table != table)
        map64_clear(&stacks->cached);
    stacks->cached_table = table;
    const uint64_t *known = map64_find(&stacks->cached, callstack_iid);
    if (known)
        return (int64_t)*known;
    int64_t callsite = callsite_read(im, source, callstack_iid);
    if (callsite != CALLSITE_NONE &&
        map64_set(&stacks->cached, callstack_iid, (uint64_t)callsite) < 0)
        stacks->failure = -ENOMEM;
    return callsite;
}

void stacks_write(struct import *im)
{
    const struct stacks *stacks = &im->stacks;
    for (size_t i = 0; i < stacks->frame_rows.n; i++) {
        const struct stack_frame *frame = &stacks->frame_rows.items[i];
        struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_frame, (int64_t)i);
        cell_text(row, COL_stack_profile_frame_name, strset_text(&im->strings, frame->name));
        cell_int(row, COL_stack_profile_frame_mapping, frame->mapping);
        cell_int(row, COL_stack_profile_frame_rel_pc, frame->rel_pc);
        if (frame->symbol_set != STACK_NONE)
            cell_int(row, COL_stack_profile_frame_symbol_set_id, frame->symbol_set);
        cell_text(row, COL_stack_profile_frame_deobfuscated_name,
                  strset_text(&im->strings, frame->deobfuscated));
        cell_text(row, COL_stack_profile_frame_type, strset_text(&im->strings, frame->type));
    }
}

void stacks_done(struct stacks *stacks)
{
    map64_done(&stacks->cached);
    stack_mapping_vec_done(&stacks->mapping_rows);
    stack_frame_vec_done(&stacks->frame_rows);
    strset_done(&stacks->mappings);
    strset_done(&stacks->frames);
    strset_done(&stacks->callsites);
}
