// SPDX-License-Identifier: Apache-2.0
//
// Messages come in any order: an object may refer to a later type, field or object. Therefore the
// first mention of an id makes an entry.
#include <stdlib.h>
#include <string.h>

#include "converter/import/heap_graph/parts.h"
#include "protos/fields.h"

#define OBJECTS_MAX (1u << 26)

void graph_free(struct graph *graph)
{
    map64_done(&graph->object_ids);
    map64_done(&graph->type_ids);
    map64_done(&graph->field_ids);
    map64_done(&graph->location_ids);
    map64_done(&graph->registry_sizes);
    graph_object_vec_done(&graph->objects);
    graph_ref_vec_done(&graph->refs);
    graph_type_vec_done(&graph->types);
    graph_field_vec_done(&graph->fields);
    graph_index_vec_done(&graph->fields_of_types);
    graph_root_vec_done(&graph->roots);
    graph_bitmap_vec_done(&graph->bitmaps);
    graph_number_vec_done(&graph->numbers);
    free(graph);
}

void graph_malformed(struct import *im, const struct graph *graph)
{
    stats_add_at(&im->stats, STAT_heap_graph_malformed_packet, (uint32_t)graph->upid, 1);
}

// Returns the index of the entry with this id; adds a new entry if needed. NOTHING: too many
// entries.
#define GET_OR_ADD(graph, ids, vec, push, id, initial)                                             \
    bool is_new;                                                                                   \
    uint64_t *index = map64_get_or_add(&(graph)->ids, id, (graph)->vec.n, &is_new);                \
    if (!index) {                                                                                  \
        (graph)->failed = true;                                                                    \
        return NOTHING;                                                                            \
    }                                                                                              \
    if (is_new && ((graph)->vec.n >= OBJECTS_MAX || push(&(graph)->vec, initial) < 0)) {           \
        (graph)->failed |= (graph)->vec.n < OBJECTS_MAX;                                           \
        map64_remove(&(graph)->ids, id);                                                           \
        return NOTHING;                                                                            \
    }                                                                                              \
    return (uint32_t)*index

uint32_t graph_object_get(struct graph *graph, uint64_t id)
{
    const struct graph_object initial = {.type = NOTHING, .root = N_ROOTS, .distance = -1};
    GET_OR_ADD(graph, object_ids, objects, graph_object_vec_push, id, initial);
}

static uint32_t type_get(struct graph *graph, uint64_t id)
{
    const struct graph_type initial = {.name = STRSET_NONE,
                                       .real_name = STRSET_NONE,
                                       .location_name = STRSET_NONE,
                                       .super = NOTHING,
                                       .loader = NOTHING};
    GET_OR_ADD(graph, type_ids, types, graph_type_vec_push, id, initial);
}

uint32_t graph_field_get(struct graph *graph, uint64_t id)
{
    const struct graph_field initial = {STRSET_NONE, STRSET_NONE, STRSET_NONE};
    GET_OR_ADD(graph, field_ids, fields, graph_field_vec_push, id, initial);
}

// Reads a list into graph->numbers. False: the list is damaged.
static bool numbers_read(struct graph *graph, const struct wire_field *message, uint32_t number)
{
    graph->numbers.n = 0;
    for (struct fields each = fields_of(message, number); fields_next(&each);) {
        struct wire_packed packed = {0};
        uint64_t value;
        while (wire_packed_next(&packed, &each.field, WIRE_VARINT, &value))
            graph->failed |= graph_number_vec_push(&graph->numbers, value) < 0;
        if (packed.started && packed.reader.error)
            return false;
    }
    return true;
}

bool graph_begin(struct import *im, struct graph *graph, int64_t upid, int64_t ts)
{
    if (!graph->has_begun) {
        graph->has_begun = true;
        graph->upid = upid;
        graph->ts = ts;
    }
    bool same = graph->upid == upid && graph->ts == ts;
    if (!same)
        stats_add(&im->stats, STAT_heap_graph_non_finalized_graph, 1);
    return same;
}

static void ref_add(struct graph *graph, uint32_t owner, uint64_t owned, uint32_t field,
                    uint32_t set)
{
    struct graph_ref ref = {.owner = owner,
                            .owned = owned ? graph_object_get(graph, owned) : NOTHING,
                            .field = field,
                            .set = set};
    if (graph->refs.n >= UINT32_MAX - 1 || graph_ref_vec_push(&graph->refs, ref) < 0)
        graph->failed = true;
}

// Reads the references of an object. False: a list is damaged.
static bool refs_read(struct import *im, struct graph *graph, const struct wire_field *message,
                      uint32_t owner, uint64_t base)
{
    if (!numbers_read(graph, message, PB_HeapGraphObject_reference_field_id))
        return false;
    uint32_t begin_ref = (uint32_t)graph->refs.n;
    size_t n_fields = graph->numbers.n;
    for (size_t i = 0; i < n_fields; i++) // the next loop sets the objects
        ref_add(graph, owner, 0, graph_field_get(graph, graph->numbers.items[i]), begin_ref);
    if (!numbers_read(graph, message, PB_HeapGraphObject_reference_object_id)) {
        graph->refs.n = begin_ref;
        return false;
    }
    bool fits = !n_fields || n_fields == graph->numbers.n;
    for (size_t i = 0; i < graph->numbers.n && fits && !graph->failed; i++) {
        uint64_t id = graph->numbers.items[i] ? graph->numbers.items[i] + base : 0;
        if (!n_fields)
            ref_add(graph, owner, id, NOTHING, begin_ref);
        else
            graph->refs.items[begin_ref + i].owned = id ? graph_object_get(graph, id) : NOTHING;
    }
    if (!fits) {
        graph_malformed(im, graph);
        graph->refs.n = begin_ref;
        return true;
    }
    struct graph_object *object = &graph->objects.items[owner];
    object->fields_of_type = !n_fields && graph->numbers.n;
    if (!numbers_read(graph, message, PB_HeapGraphObject_runtime_internal_object_id)) {
        graph->refs.n = begin_ref;
        return false;
    }
    uint64_t internal_name = UINT64_MAX; // not in the lists of names: see types_resolve()
    for (size_t i = 0; i < graph->numbers.n && !graph->failed; i++)
        ref_add(graph, owner, graph->numbers.items[i], graph_field_get(graph, internal_name),
                begin_ref);
    object = &graph->objects.items[owner];
    object->refs = begin_ref;
    object->n_refs = (uint32_t)(graph->refs.n - begin_ref);
    return true;
}

static void bitmap_read(struct graph *graph, uint32_t object,
                        const union message_HeapGraphObject *part)
{
    struct graph_bitmap bitmap = {.object = object};
    bool is_bitmap = false;
    for (size_t i = 0; i < N_BITMAP_FIELDS; i++) {
        const struct wire_field *field = &part->at[PB_HeapGraphObject_bitmap_id_field + i];
        is_bitmap |= bitmap.has[i] = field_present(field);
        bitmap.values[i] = i < BITMAP_WIDTH ? field_i64(field) : (uint32_t)field_u64(field);
    }
    if (is_bitmap && graph_bitmap_vec_push(&graph->bitmaps, bitmap) < 0)
        graph->failed = true;
}

// Reads an object. False: a list in the object is damaged.
static bool object_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                        const struct wire_field *message)
{
    MESSAGE(part, HeapGraphObject, message);
    uint64_t delta = field_u64(&part.id_delta);
    uint64_t id = delta ? graph->last_object + delta : field_u64(&part.id);
    if (!graph_begin(im, graph, upid, ts))
        return true;
    uint32_t owner = graph_object_get(graph, id);
    uint32_t type = type_get(graph, field_u64(&part.type_id));
    if (owner == NOTHING || type == NOTHING) {
        graph_malformed(im, graph);
        return true;
    }
    if (!refs_read(im, graph, message, owner, field_u64(&part.reference_field_id_base)))
        return false;
    if (field_present(&part.heap_type_delta)) {
        uint64_t heap = field_u64(&part.heap_type_delta);
        graph->last_heap = heap < N_HEAPS ? (uint8_t)heap : 0;
    }
    graph->last_object = id;
    struct graph_object *object = &graph->objects.items[owner];
    object->type = type;
    object->self_size = field_i64(&part.self_size);
    object->heap = graph->last_heap;
    if (field_present(&part.native_allocation_registry_size_field))
        graph->failed |= map64_set(&graph->registry_sizes, owner,
                                   field_u64(&part.native_allocation_registry_size_field)) < 0;
    bitmap_read(graph, owner, &part);
    return true;
}

static void type_read(struct import *im, struct graph *graph, const struct wire_field *message)
{
    MESSAGE(part, HeapGraphType, message);
    if (!numbers_read(graph, message, PB_HeapGraphType_reference_field_id)) {
        graph_malformed(im, graph);
        return;
    }
    uint32_t index = type_get(graph, field_u64(&part.id));
    if (index == NOTHING)
        return;
    uint32_t begin_field = (uint32_t)graph->fields_of_types.n;
    for (size_t i = 0; i < graph->numbers.n && !graph->failed; i++)
        if (graph->fields_of_types.n >= OBJECTS_MAX ||
            graph_index_vec_push(&graph->fields_of_types,
                                 graph_field_get(graph, graph->numbers.items[i])) < 0)
            graph->failed = true;
    uint64_t kind = field_u64(&part.kind);
    graph->types.items[index] = (struct graph_type){
        .location = field_u64(&part.location_id),
        .has_location = field_present(&part.location_id),
        .object_size = field_u64(&part.object_size),
        .superclass = field_u64(&part.superclass_id),
        .classloader = field_u64(&part.classloader_id),
        .name = strset_add(&im->strings, field_text(&part.class_name), part.class_name.size),
        .fields = begin_field,
        .n_fields = (uint32_t)(graph->fields_of_types.n - begin_field),
        .real_name = STRSET_NONE,
        .location_name = STRSET_NONE,
        .super = NOTHING,
        .loader = NOTHING,
        .kind = kind < N_KINDS ? (uint8_t)kind : 0,
        .is_known = true,
    };
}

// Reads the name of a field, "TYPE NAME".
static void field_name_read(struct import *im, struct graph *graph,
                            const struct wire_field *message)
{
    MESSAGE(part, InternedString, message);
    const struct wire_field *str = &part.str;
    const char *text = field_text(str);
    const char *space = str->size ? memchr(text, ' ', str->size) : NULL;
    size_t type_size = space ? (size_t)(space - text) : 0, skipped = space ? type_size + 1 : 0;
    uint32_t index = graph_field_get(graph, field_u64(&part.iid));
    if (index == NOTHING)
        return;
    graph->fields.items[index] = (struct graph_field){
        .name = strset_add(&im->strings, text + skipped, str->size - skipped),
        .type = space ? strset_add(&im->strings, text, type_size) : STRSET_NONE,
        .real_name = STRSET_NONE,
    };
}

static void location_read(struct import *im, struct graph *graph, const struct wire_field *message)
{
    MESSAGE(part, InternedString, message);
    const struct wire_field *str = &part.str;
    bool is_new;
    if (!map64_get_or_add(&graph->location_ids, field_u64(&part.iid),
                          strset_add(&im->strings, field_text(str), str->size), &is_new))
        graph->failed = true;
}

// Reads the objects of a kind of roots. False: the list of objects is damaged.
static bool root_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                      const struct wire_field *message)
{
    MESSAGE(part, HeapGraphRoot, message);
    uint64_t type = field_u64(&part.root_type);
    if (!numbers_read(graph, message, PB_HeapGraphRoot_object_ids))
        return false;
    if (!graph_begin(im, graph, upid, ts))
        return true;
    for (size_t i = 0; i < graph->numbers.n; i++) {
        struct graph_root root = {.object = graph->numbers.items[i],
                                  .type = type < N_ROOTS ? (uint8_t)type : 0};
        graph->failed |= graph_root_vec_push(&graph->roots, root) < 0;
    }
    return true;
}

bool graph_part_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                     const struct wire_field *field)
{
    if (field->number == PB_HeapGraph_objects)
        return object_read(im, graph, upid, ts, field);
    if (field->number == PB_HeapGraph_roots)
        return root_read(im, graph, upid, ts, field);
    if (field->number == PB_HeapGraph_types)
        type_read(im, graph, field);
    else if (field->number == PB_HeapGraph_field_names)
        field_name_read(im, graph, field);
    else if (field->number == PB_HeapGraph_location_names)
        location_read(im, graph, field);
    return true;
}
