// SPDX-License-Identifier: Apache-2.0
//
// A call site is a frame and its calling call site, so chains with a common beginning share rows.
// The ids of rows are the ids in string sets. Mappings and call sites are written at their first
// use, frames at the end, because symbols usually come last in a trace.
//
// Interned entries are read once: `made` of an entry is the id of its row plus 1. Each sample
// requests an incomplete entry again, and the missing part may come later. `made` of an incomplete
// entry is negative and refers to the missing part: the iid of a string or mapping, or the frame at
// which the walk of a callstack continues. Only the missing part is looked up, and counted, again.
#include "converter/import/profile/stacks.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PATH_MAX_BYTES  4096
#define PATHS_MAX_BYTES ((size_t)64 << 20) // of all paths; a short trace can repeat a path
#define LONG_BYTES      4096
#define LONG_BYTES_MAX  ((size_t)256 << 20) // sum of long texts in rows
#define BUILD_ID_MAX    64

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

extern const struct importer importer_stacks;

struct stacks *stacks_of(const struct import *im)
{
    return importer_state(im, &importer_stacks);
}

static uint32_t text_keep(struct import *im, const char *text, size_t size)
{
    return strset_add(&im->strings, text ? text : "", size);
}

// Returns the id in strings of an interned string; iid 0 is the empty string. STRSET_NONE: the
// trace lacks the string.
static uint32_t interned_string(struct import *im, const struct stack_source *source,
                                uint32_t field, uint64_t iid)
{
    if (!iid)
        return text_keep(im, "", 0);
    struct interned *entry = generation_entry(source->state, field, iid);
    if (!entry) {
        stats_add(&im->stats, STAT_stackprofile_invalid_string_id, 1);
        return STRSET_NONE;
    }
    uint32_t id = interned_text_id(im, entry);
    return id == STRSET_NONE ? text_keep(im, "", 0) : id;
}

// Notes the missing part of an entry.
static void lacks(struct import *im, struct interned *entry, uint64_t iid)
{
    struct stacks *stacks = stacks_of(im);
    if (lacking_vec_push(&stacks->lacking, iid) < 0)
        import_fail(im, -ENOMEM);
    else
        entry->made = -(int64_t)stacks->lacking.n;
}

static uint64_t lacked(const struct stacks *stacks, const struct interned *entry)
{
    return stacks->lacking.items[-entry->made - 1];
}

static uint32_t path_read(struct import *im, const struct stack_source *source,
                          const struct wire_field *mapping)
{
    CLEANUP(strbuf_done) struct strbuf path = {0};
    size_t left = PATHS_MAX_BYTES - stacks_of(im)->n_path_bytes;
    size_t max = left < PATH_MAX_BYTES ? left : PATH_MAX_BYTES;
    struct values ids = values_of(mapping, PB_Mapping_path_string_ids);
    uint64_t iid;
    while (path.size < max && values_next(&ids, &iid)) {
        uint32_t id = interned_string(im, source, source->paths, iid);
        if (id == STRSET_NONE)
            break;
        const struct strset_entry *part = &im->strings.entries[id];
        if (path.size || part->text[0] != '/')
            strbuf_add_char(&path, '/');
        strbuf_add(&path, part->text, part->size < max - path.size ? part->size : max - path.size);
    }
    stacks_of(im)->n_path_bytes += path.size;
    if (path.size == max)
        stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
    return text_keep(im, path.text, path.size);
}

uint32_t stacks_build_id(struct import *im, const void *bytes, size_t size)
{
    CLEANUP(strbuf_done) struct strbuf hex = {0};
    for (size_t i = 0; i < size && i < BUILD_ID_MAX; i++)
        strbuf_addf(&hex, "%02x", ((const uint8_t *)bytes)[i]);
    return text_keep(im, hex.text, hex.size);
}

// Adds a mapping, unless the mapping is known. Returns the id of its row. `serial` distinguishes
// mappings with the same contents.
static int64_t mapping_put(struct import *im, uint32_t name, uint32_t build_id,
                           const int64_t numbers[5], int64_t serial)
{
    struct stacks *stacks = stacks_of(im);
    int64_t key[] = {numbers[0], numbers[1], numbers[2], numbers[3],
                     numbers[4], name,       build_id,   serial};
    bool is_new;
    if (name == STRSET_NONE || build_id == STRSET_NONE) { // no memory
        import_fail(im, -ENOMEM);
        return STACK_NONE;
    }
    int64_t id = import_set_add(im, &stacks->mappings, key, sizeof(key), &is_new);
    if (!is_new || id < 0)
        return id;
    struct stack_mapping mapping = {name, build_id, numbers[0], numbers[2]};
    import_fail(im, stack_mapping_vec_push(&stacks->mapping_rows, mapping));
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

int64_t stacks_mapping(struct import *im, uint32_t name, uint32_t build_id,
                       const int64_t numbers[5])
{
    return mapping_put(im, name, build_id, numbers, 0);
}

int64_t stacks_mapping_add(struct import *im, uint32_t name, uint32_t build_id,
                           const int64_t numbers[5])
{
    return mapping_put(im, name, build_id, numbers, (int64_t)stacks_of(im)->mappings.n + 1);
}

// Returns the mapping of frames without a mapping. This mapping spans all addresses.
static int64_t mapping_of_nothing(struct import *im)
{
    const int64_t numbers[5] = {[3] = -1};
    uint32_t empty = text_keep(im, "", 0);
    return stacks_mapping(im, empty, empty, numbers);
}

// Reads a mapping. STACK_NONE: the build id is missing. A path ends at its first missing part.
static int64_t mapping_read(struct import *im, const struct stack_source *source,
                            struct interned *entry)
{
    struct wire_field whole = interned_message(entry);
    MESSAGE(part, Mapping, &whole);
    uint64_t iid = field_u64(&part.build_id);
    uint32_t build_id = interned_string(im, source, source->build_ids, iid);
    if (build_id == STRSET_NONE) {
        lacks(im, entry, iid);
        return STACK_NONE;
    }
    int64_t numbers[] = {
        field_i64(&part.exact_offset), field_i64(&part.start_offset), field_i64(&part.start),
        field_i64(&part.end),          field_i64(&part.load_bias),
    };
    uint32_t path = path_read(im, source, &whole);
    return stacks_mapping(
        im, path,
        stacks_build_id(im, im->strings.entries[build_id].text, im->strings.entries[build_id].size),
        numbers);
}

static int64_t mapping_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    bool has_none = !iid && source->mappings == PB_InternedData_mappings;
    struct interned *entry =
        has_none ? NULL : generation_entry(source->state, source->mappings, iid);
    if (!entry && !iid)
        return mapping_of_nothing(im);
    if (!entry) {
        stats_add(&im->stats, STAT_stackprofile_invalid_mapping_id, 1);
        return STACK_NONE;
    }
    if (entry->made > 0)
        return entry->made - 1;
    if (entry->made < 0 &&
        interned_string(im, source, source->build_ids, lacked(stacks_of(im), entry)) == STRSET_NONE)
        return STACK_NONE;
    int64_t id = mapping_read(im, source, entry);
    if (id >= 0)
        entry->made = id + 1;
    return id;
}

int64_t stacks_interned_mapping(struct import *im, const struct stack_source *source, uint64_t iid)
{
    return generation_find(source->state, source->mappings, iid) ? mapping_get(im, source, iid)
                                                                 : STACK_NONE;
}

static void text_put(struct import *im, struct cell *row, size_t column, uint32_t id)
{
    struct stacks *stacks = stacks_of(im);
    size_t size = id < im->strings.n ? im->strings.entries[id].size : 0;
    if (size > LONG_BYTES && stacks->n_long_bytes > LONG_BYTES_MAX) {
        stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
        return;
    }
    stacks->n_long_bytes += size > LONG_BYTES ? size : 0;
    cell_text(row, column, strset_text(&im->strings, id));
}

int64_t stacks_symbol(struct import *im, int64_t set, uint32_t name, uint32_t file, int64_t line,
                      int inlined)
{
    if (set == SYMBOL_SET_NEW)
        set = stacks_of(im)->n_symbols;
    struct cell *row =
        database_row_with_id(im->db, TABLE_stack_profile_symbol, stacks_of(im)->n_symbols++);
    cell_int(row, COL_stack_profile_symbol_symbol_set_id, set);
    text_put(im, row, COL_stack_profile_symbol_name, name);
    text_put(im, row, COL_stack_profile_symbol_source_file, file);
    cell_known(row, COL_stack_profile_symbol_line_number, line);
    cell_known(row, COL_stack_profile_symbol_inlined, inlined);
    return set;
}

int64_t stacks_frame(struct import *im, int64_t mapping, int64_t rel_pc, uint32_t name,
                     uint32_t file, uint32_t line, uint32_t type)
{
    struct stacks *stacks = stacks_of(im);
    if (mapping == STACK_NONE)
        mapping = mapping_of_nothing(im);
    int64_t key[] = {mapping, rel_pc, name, file, line};
    bool is_new;
    int64_t id = import_set_add(im, &stacks->frames, key, sizeof(key), &is_new);
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
        .package = STRSET_NONE,
    };
    if (file != STRSET_NONE || line)
        frame.symbol_set = stacks_symbol(im, SYMBOL_SET_NEW, name, file, line ? line : -1LL, -1);
    import_fail(im, stack_frame_vec_push(&stacks->frame_rows, frame));
    return import_failed(im) ? STACK_NONE : id;
}

static uint32_t frame_type(struct import *im, const union message_Frame *part)
{
    static const char *const kinds[] = {
        NULL, "native", "kernel", "interpreted", "jit", "gc", "runtime",
    };
    const struct wire_field *text = &part->kind_str;
    if (field_present(text))
        return text_keep(im, field_text(text), text->size);
    uint64_t kind = field_u64(&part->kind);
    if (!kind || kind >= ELEMENTS(kinds))
        return STRSET_NONE;
    return text_keep(im, kinds[kind], strlen(kinds[kind]));
}

static int64_t frame_read(struct import *im, const struct stack_source *source,
                          struct interned *entry)
{
    struct wire_field whole = interned_message(entry);
    MESSAGE(part, Frame, &whole);
    uint64_t mapping_iid = field_u64(&part.mapping_id);
    int64_t mapping = mapping_get(im, source, mapping_iid);
    if (mapping < 0) {
        lacks(im, entry, mapping_iid);
        return STACK_NONE;
    }
    // A frame without a name, or with a missing name, still has its address.
    uint64_t name_iid = field_u64(&part.function_name_id);
    uint32_t name = STRSET_NONE;
    if (name_iid) {
        name = interned_string(im, source, source->function_names, name_iid);
        name = name == STRSET_NONE ? text_keep(im, "", 0) : name;
    }
    uint64_t file_iid = field_u64(&part.source_path_iid);
    return stacks_frame(im, mapping, field_i64(&part.rel_pc), name,
                        file_iid ? interned_string(im, source, source->files, file_iid)
                                 : STRSET_NONE,
                        (uint32_t)field_u64(&part.line_number), frame_type(im, &part));
}

static int64_t frame_get(struct import *im, const struct stack_source *source, uint64_t iid)
{
    struct interned *entry = generation_entry(source->state, source->frames, iid);
    if (!entry) {
        stats_add(&im->stats, STAT_stackprofile_invalid_frame_id, 1);
        return STACK_NONE;
    }
    if (entry->made > 0)
        return entry->made - 1;
    if (entry->made < 0 && mapping_get(im, source, lacked(stacks_of(im), entry)) < 0)
        return STACK_NONE;
    int64_t id = frame_read(im, source, entry);
    if (id >= 0)
        entry->made = id + 1;
    return id;
}

int64_t stacks_child(struct import *im, int64_t parent, int64_t frame, int64_t depth)
{
    int64_t key[] = {parent, frame};
    bool is_new;
    int64_t id = import_set_add(im, &stacks_of(im)->callsites, key, sizeof(key), &is_new);
    if (!is_new || id < 0)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_callsite, id);
    cell_int(row, COL_stack_profile_callsite_depth, depth);
    cell_known(row, COL_stack_profile_callsite_parent_id, parent);
    cell_int(row, COL_stack_profile_callsite_frame_id, frame);
    return id;
}

int64_t stacks_frame_of(const struct stacks *stacks, int64_t callsite, int64_t *ret_parent)
{
    int64_t key[2]; // as in stacks_child()
    memcpy(key, stacks->callsites.entries[callsite].text, sizeof(key));
    *ret_parent = key[0];
    return key[1];
}

bool stacks_has_callstack(const struct stack_source *source, uint64_t callstack_iid)
{
    struct generation state = *source->state;
    state.use = NULL; // this look-up does not count as a use: the callstack may still come
    return generation_entry(&state, source->callstacks, callstack_iid) != NULL;
}

// Continues a walk to its end or to a missing frame. False: a frame is missing.
static bool walk_on(struct import *im, const struct stack_source *source, struct stack_walk *walk)
{
    while (walk->has_frame || values_next(&walk->ids, &walk->frame_iid)) {
        walk->has_frame = true;
        int64_t frame = frame_get(im, source, walk->frame_iid);
        int64_t callsite =
            frame < 0 ? CALLSITE_NONE : stacks_child(im, walk->callsite, frame, walk->depth);
        if (callsite < 0)
            return false;
        walk->has_frame = false;
        walk->callsite = callsite;
        walk->depth++;
    }
    return true;
}

int64_t stacks_callsite(struct import *im, const struct stack_source *source,
                        uint64_t callstack_iid)
{
    struct stack_walk_vec *walks = &stacks_of(im)->walks;
    struct interned *entry = generation_entry(source->state, source->callstacks, callstack_iid);
    if (!entry) {
        stats_add(&im->stats, STAT_stackprofile_invalid_callstack_id, 1);
        return CALLSITE_NONE;
    }
    if (entry->made > 0)
        return entry->made - 1;
    struct wire_field whole = interned_message(entry);
    struct stack_walk walk = {.ids = values_of(&whole, PB_Callstack_frame_ids),
                              .callsite = CALLSITE_NONE};
    if (entry->made < 0)
        walk = walks->items[-entry->made - 1];
    bool is_whole = walk_on(im, source, &walk);
    if (is_whole && walk.callsite != CALLSITE_NONE) {
        entry->made = walk.callsite + 1;
        return walk.callsite;
    }
    if (is_whole)
        stats_add(&im->stats, STAT_stackprofile_empty_callstack, 1);
    if (entry->made < 0)
        walks->items[-entry->made - 1] = walk;
    else if (stack_walk_vec_push(walks, walk) == 0)
        entry->made = -(int64_t)walks->n;
    else
        import_fail(im, -ENOMEM);
    return CALLSITE_NONE;
}

// Writes the rows of frames.
static void stacks_write(struct import *im, void *state)
{
    const struct stacks *stacks = state;
    for (size_t i = 0; i < stacks->frame_rows.n; i++) {
        const struct stack_frame *frame = &stacks->frame_rows.items[i];
        struct cell *row = database_row_with_id(im->db, TABLE_stack_profile_frame, (int64_t)i);
        text_put(im, row, COL_stack_profile_frame_name, frame->name);
        cell_int(row, COL_stack_profile_frame_mapping, frame->mapping);
        cell_int(row, COL_stack_profile_frame_rel_pc, frame->rel_pc);
        cell_known(row, COL_stack_profile_frame_symbol_set_id, frame->symbol_set);
        text_put(im, row, COL_stack_profile_frame_deobfuscated_name, frame->deobfuscated);
        cell_text(row, COL_stack_profile_frame_type, strset_text(&im->strings, frame->type));
    }
}

static void stacks_done(void *state)
{
    struct stacks *stacks = state;
    lacking_vec_done(&stacks->lacking);
    stack_walk_vec_done(&stacks->walks);
    stack_mapping_vec_done(&stacks->mapping_rows);
    stack_frame_vec_done(&stacks->frame_rows);
    strset_done(&stacks->mappings);
    strset_done(&stacks->frames);
    strset_done(&stacks->callsites);
}

const struct importer importer_stacks = {
    .state_size = sizeof(struct stacks),
    .of_all_machines = true,
    .write = stacks_write,
    .done = stacks_done,
};
