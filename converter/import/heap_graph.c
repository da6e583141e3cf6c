// SPDX-License-Identifier: Apache-2.0
//
// HeapGraph: the objects of a Java heap and what they refer to. A dump is spread over packets, and
// names of types and fields come behind the objects that have them, so a dump is kept until its
// last packet was seen. The message is Android's extension of TracePacket.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PACKET_HEAP_GRAPH 56 // field of TracePacket

enum { // fields of HeapGraph
    GRAPH_PID = 1,
    GRAPH_OBJECTS = 2,
    GRAPH_FIELD_NAMES = 4,
    GRAPH_CONTINUED = 5,
    GRAPH_INDEX = 6,
    GRAPH_ROOTS = 7,
    GRAPH_LOCATION_NAMES = 8,
    GRAPH_TYPES = 9,
    GRAPH_HEAP_SIZE = 10,
};

enum { // of HeapGraphObject
    OBJECT_ID = 1,
    OBJECT_TYPE = 2,
    OBJECT_SELF_SIZE = 3,
    OBJECT_FIELDS = 4,
    OBJECT_REFERENCES = 5,
    OBJECT_REFERENCE_BASE = 6,
    OBJECT_ID_DELTA = 7,
    OBJECT_REGISTRY_SIZE = 8,
    OBJECT_HEAP_TYPE = 9,
    OBJECT_INTERNALS = 10,
};

enum { // of HeapGraphType
    TYPE_ID = 1,
    TYPE_LOCATION = 2,
    TYPE_NAME = 3,
    TYPE_OBJECT_SIZE = 4,
    TYPE_SUPERCLASS = 5,
    TYPE_FIELDS = 6,
    TYPE_KIND = 7,
    TYPE_CLASSLOADER = 8,
};

enum { ROOT_OBJECTS = 1, ROOT_TYPE = 2 }; // of HeapGraphRoot

#define OBJECTS_MAX      (1u << 26)
#define SUPERCLASSES_MAX 1000 // above an object: beyond that they go in a circle
#define NOTHING          UINT32_MAX
#define ROOT_VM_INTERNAL 13
#define KIND_STRING      3
#define IS_MALLOCED      1 // bit of a registry's size that is no part of it

static const char *const root_names[] = {
    "ROOT_UNKNOWN",           "ROOT_JNI_GLOBAL",      "ROOT_JNI_LOCAL",    "ROOT_JAVA_FRAME",
    "ROOT_NATIVE_STACK",      "ROOT_STICKY_CLASS",    "ROOT_THREAD_BLOCK", "ROOT_MONITOR_USED",
    "ROOT_THREAD_OBJECT",     "ROOT_INTERNED_STRING", "ROOT_FINALIZING",   "ROOT_DEBUGGER",
    "ROOT_REFERENCE_CLEANUP", "ROOT_VM_INTERNAL",     "ROOT_JNI_MONITOR",
};
#define N_ROOTS (sizeof(root_names) / sizeof(root_names[0]))

static const char *const kind_names[] = {
    "KIND_UNKNOWN",
    "KIND_NORMAL",
    "KIND_NOREFERENCES",
    "KIND_STRING",
    "KIND_ARRAY",
    "KIND_CLASS",
    "KIND_CLASSLOADER",
    "KIND_DEXCACHE",
    "KIND_SOFT_REFERENCE",
    "KIND_WEAK_REFERENCE",
    "KIND_FINALIZER_REFERENCE",
    "KIND_PHANTOM_REFERENCE",
};
#define N_KINDS             (sizeof(kind_names) / sizeof(kind_names[0]))
#define KIND_NOREFERENCES   2
#define KIND_ARRAY          4
#define KIND_WEAK_REFERENCE 9 // those from here on do not keep what they refer to

static const char *const heap_names[] = {
    NULL,
    "HEAP_TYPE_APP",
    "HEAP_TYPE_ZYGOTE",
    "HEAP_TYPE_BOOT_IMAGE",
};
#define N_HEAPS     (sizeof(heap_names) / sizeof(heap_names[0]))
#define HEAP_ZYGOTE 2 // from here on nothing is ever collected

struct graph_object {
    int64_t self_size, native_size;
    uint32_t type;         // NOTHING: only referred to
    uint32_t refs, n_refs; // begin and number of its references
    uint8_t heap, root;    // N_ROOTS: none
    int32_t distance;      // from a root; -1: none leads to it
    bool fields_of_type;   // its references are the fields of its type, in order
};
VEC_DEFINE(graph_object_vec, struct graph_object);

struct graph_ref {
    uint32_t owner, owned, field, set;
};
VEC_DEFINE(graph_ref_vec, struct graph_ref);

struct graph_field {
    uint32_t name, type; // strings
};
VEC_DEFINE(graph_field_vec, struct graph_field);

struct graph_type {
    uint64_t location, object_size, superclass, classloader;
    uint32_t name;             // string
    uint32_t fields, n_fields; // in fields_of_types
    uint32_t location_name;    // string
    uint32_t super;            // class, NOTHING: unknown
    uint32_t loader;           // object
    uint8_t kind;
    bool has_location, is_known;
};
VEC_DEFINE(graph_type_vec, struct graph_type);

struct graph_root {
    uint64_t object;
    uint8_t type;
};
VEC_DEFINE(graph_root_vec, struct graph_root);
VEC_DEFINE(graph_index_vec, uint32_t);
VEC_DEFINE(graph_number_vec, uint64_t);

// A dump that is being read, of one sequence.
struct graph {
    int64_t upid, ts;
    bool has_begun, has_index, truncated, has_size, failed;
    uint64_t index;
    int64_t heap_size;
    uint64_t last_object;
    uint8_t last_heap;
    struct map64 object_ids, type_ids, field_ids, location_ids;
    struct map64 registry_sizes; // by object
    struct graph_object_vec objects;
    struct graph_ref_vec refs;
    struct graph_type_vec types;
    struct graph_field_vec fields;
    struct graph_index_vec fields_of_types;
    struct graph_root_vec roots;
    struct graph_number_vec numbers; // of the message at hand
};

// A row of heap_graph.
struct graph_row {
    int64_t upid, ts, heap_size;
    bool truncated, has_size;
};
VEC_DEFINE(graph_row_vec, struct graph_row);

struct heap_graphs {
    struct map64 open; // sequence -> struct graph
    struct strset keys;
    struct graph_row_vec rows;            // by key
    int64_t n_classes, n_objects, n_refs; // written
};

static void graph_free(struct graph *graph)
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
    graph_number_vec_done(&graph->numbers);
    free(graph);
}

static void malformed(struct import *im, const struct graph *graph)
{
    stats_add_at(&im->stats, STAT_heap_graph_malformed_packet, (uint32_t)graph->upid, 1);
}

static uint32_t string_of(struct import *im, const char *text)
{
    return strset_add(&im->strings, text, strlen(text));
}

// Index of what has this id, made if it is new; NOTHING: too many.
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

static uint32_t object_get(struct graph *graph, uint64_t id)
{
    const struct graph_object initial = {.type = NOTHING, .root = N_ROOTS, .distance = -1};
    GET_OR_ADD(graph, object_ids, objects, graph_object_vec_push, id, initial);
}

static uint32_t type_get(struct graph *graph, uint64_t id)
{
    const struct graph_type initial = {
        .name = STRSET_NONE, .location_name = STRSET_NONE, .super = NOTHING, .loader = NOTHING};
    GET_OR_ADD(graph, type_ids, types, graph_type_vec_push, id, initial);
}

static uint32_t field_get(struct graph *graph, uint64_t id)
{
    const struct graph_field initial = {STRSET_NONE, STRSET_NONE};
    GET_OR_ADD(graph, field_ids, fields, graph_field_vec_push, id, initial);
}

// The values of a list into graph->numbers. False: it is broken.
static bool numbers_read(struct graph *graph, const struct wire_field *message, uint32_t number)
{
    graph->numbers.n = 0;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number != number)
            continue;
        struct wire_packed packed = {0};
        uint64_t value;
        while (wire_packed_next(&packed, &field, WIRE_VARINT, &value))
            graph->failed |= graph_number_vec_push(&graph->numbers, value) < 0;
        if (packed.started && packed.reader.error)
            return false;
    }
    return true;
}

// False: the dump at hand is of another process or moment.
static bool begin(struct import *im, struct graph *graph, int64_t upid, int64_t ts)
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
                            .owned = owned ? object_get(graph, owned) : NOTHING,
                            .field = field,
                            .set = set};
    if (graph->refs.n >= UINT32_MAX - 1 || graph_ref_vec_push(&graph->refs, ref) < 0)
        graph->failed = true;
}

// False: a list is broken.
static bool refs_read(struct import *im, struct graph *graph, const struct wire_field *message,
                      uint32_t owner, uint64_t base)
{
    if (!numbers_read(graph, message, OBJECT_FIELDS))
        return false;
    uint32_t begin_ref = (uint32_t)graph->refs.n;
    size_t n_fields = graph->numbers.n;
    for (size_t i = 0; i < n_fields; i++) // their objects follow
        ref_add(graph, owner, 0, field_get(graph, graph->numbers.items[i]), begin_ref);
    if (!numbers_read(graph, message, OBJECT_REFERENCES)) {
        graph->refs.n = begin_ref;
        return false;
    }
    bool fits = !n_fields || n_fields == graph->numbers.n;
    for (size_t i = 0; i < graph->numbers.n && fits && !graph->failed; i++) {
        uint64_t id = graph->numbers.items[i] ? graph->numbers.items[i] + base : 0;
        if (!n_fields)
            ref_add(graph, owner, id, NOTHING, begin_ref);
        else
            graph->refs.items[begin_ref + i].owned = id ? object_get(graph, id) : NOTHING;
    }
    if (!fits) {
        malformed(im, graph);
        graph->refs.n = begin_ref;
        return true;
    }
    struct graph_object *object = &graph->objects.items[owner];
    object->fields_of_type = !n_fields && graph->numbers.n;
    if (!numbers_read(graph, message, OBJECT_INTERNALS)) {
        graph->refs.n = begin_ref;
        return false;
    }
    uint64_t internal_name = UINT64_MAX; // no list of names has it: see types_resolve
    for (size_t i = 0; i < graph->numbers.n && !graph->failed; i++)
        ref_add(graph, owner, graph->numbers.items[i], field_get(graph, internal_name), begin_ref);
    object = &graph->objects.items[owner];
    object->refs = begin_ref;
    object->n_refs = (uint32_t)(graph->refs.n - begin_ref);
    return true;
}

// False: a list in it is broken.
static bool object_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                        const struct wire_field *message)
{
    MESSAGE(part, OBJECT_INTERNALS, message);
    uint64_t delta = field_u64(&part[OBJECT_ID_DELTA]);
    uint64_t id = delta ? graph->last_object + delta : field_u64(&part[OBJECT_ID]);
    if (!begin(im, graph, upid, ts))
        return true;
    uint32_t owner = object_get(graph, id);
    uint32_t type = type_get(graph, field_u64(&part[OBJECT_TYPE]));
    if (owner == NOTHING || type == NOTHING) {
        malformed(im, graph);
        return true;
    }
    if (!refs_read(im, graph, message, owner, field_u64(&part[OBJECT_REFERENCE_BASE])))
        return false;
    if (field_present(&part[OBJECT_HEAP_TYPE])) {
        uint64_t heap = field_u64(&part[OBJECT_HEAP_TYPE]);
        graph->last_heap = heap < N_HEAPS ? (uint8_t)heap : 0;
    }
    graph->last_object = id;
    struct graph_object *object = &graph->objects.items[owner];
    object->type = type;
    object->self_size = field_i64(&part[OBJECT_SELF_SIZE]);
    object->heap = graph->last_heap;
    if (field_present(&part[OBJECT_REGISTRY_SIZE]))
        graph->failed |=
            map64_set(&graph->registry_sizes, owner, field_u64(&part[OBJECT_REGISTRY_SIZE])) < 0;
    return true;
}

static void type_read(struct import *im, struct graph *graph, const struct wire_field *message)
{
    MESSAGE(part, TYPE_CLASSLOADER, message);
    if (!numbers_read(graph, message, TYPE_FIELDS)) {
        malformed(im, graph);
        return;
    }
    uint32_t index = type_get(graph, field_u64(&part[TYPE_ID]));
    if (index == NOTHING)
        return;
    uint32_t begin_field = (uint32_t)graph->fields_of_types.n;
    for (size_t i = 0; i < graph->numbers.n && !graph->failed; i++)
        if (graph->fields_of_types.n >= OBJECTS_MAX ||
            graph_index_vec_push(&graph->fields_of_types,
                                 field_get(graph, graph->numbers.items[i])) < 0)
            graph->failed = true;
    uint64_t kind = field_u64(&part[TYPE_KIND]);
    graph->types.items[index] = (struct graph_type){
        .location = field_u64(&part[TYPE_LOCATION]),
        .has_location = field_present(&part[TYPE_LOCATION]),
        .object_size = field_u64(&part[TYPE_OBJECT_SIZE]),
        .superclass = field_u64(&part[TYPE_SUPERCLASS]),
        .classloader = field_u64(&part[TYPE_CLASSLOADER]),
        .name = strset_add(&im->strings, field_text(&part[TYPE_NAME]), part[TYPE_NAME].size),
        .fields = begin_field,
        .n_fields = (uint32_t)(graph->fields_of_types.n - begin_field),
        .location_name = STRSET_NONE,
        .super = NOTHING,
        .loader = NOTHING,
        .kind = kind < N_KINDS ? (uint8_t)kind : 0,
        .is_known = true,
    };
}

// "TYPE NAME".
static void field_name_read(struct import *im, struct graph *graph,
                            const struct wire_field *message)
{
    MESSAGE(part, PB_InternedString_str, message);
    const struct wire_field *str = &part[PB_InternedString_str];
    const char *text = field_text(str);
    const char *space = str->size ? memchr(text, ' ', str->size) : NULL;
    size_t type_size = space ? (size_t)(space - text) : 0, skipped = space ? type_size + 1 : 0;
    uint32_t index = field_get(graph, field_u64(&part[PB_InternedString_iid]));
    if (index == NOTHING)
        return;
    graph->fields.items[index] = (struct graph_field){
        .name = strset_add(&im->strings, text + skipped, str->size - skipped),
        .type = space ? strset_add(&im->strings, text, type_size) : STRSET_NONE,
    };
}

static void location_read(struct import *im, struct graph *graph, const struct wire_field *message)
{
    MESSAGE(part, PB_InternedString_str, message);
    const struct wire_field *str = &part[PB_InternedString_str];
    bool is_new;
    if (!map64_get_or_add(&graph->location_ids, field_u64(&part[PB_InternedString_iid]),
                          strset_add(&im->strings, field_text(str), str->size), &is_new))
        graph->failed = true;
}

// False: it is broken.
static bool root_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                      const struct wire_field *message)
{
    MESSAGE(part, ROOT_TYPE, message);
    uint64_t type = field_u64(&part[ROOT_TYPE]);
    if (!numbers_read(graph, message, ROOT_OBJECTS))
        return false;
    if (!begin(im, graph, upid, ts))
        return true;
    for (size_t i = 0; i < graph->numbers.n; i++) {
        struct graph_root root = {.object = graph->numbers.items[i],
                                  .type = type < N_ROOTS ? (uint8_t)type : 0};
        graph->failed |= graph_root_vec_push(&graph->roots, root) < 0;
    }
    return true;
}

static uint32_t field_of_ref(const struct graph *graph, const struct graph_ref *ref)
{
    return ref->field == NOTHING ? STRSET_NONE : graph->fields.items[ref->field].name;
}

// The object that `object` refers to in the field of that name.
static uint32_t referred(const struct graph *graph, uint32_t object, uint32_t name)
{
    const struct graph_object *owner = &graph->objects.items[object];
    for (uint32_t i = 0; i < owner->n_refs; i++) {
        const struct graph_ref *ref = &graph->refs.items[owner->refs + i];
        if (field_of_ref(graph, ref) == name)
            return ref->owned;
    }
    return NOTHING;
}

static const struct graph_type *superclass_of(struct import *im, const struct graph *graph,
                                              const struct graph_type *type)
{
    const uint64_t *index =
        type->superclass ? map64_find(&graph->type_ids, type->superclass) : NULL;
    if (index && graph->types.items[*index].is_known)
        return &graph->types.items[*index];
    malformed(im, graph);
    return NULL;
}

// Names of references that have none: fields of the type, then of the types above it.
static void fields_apply(struct import *im, struct graph *graph, const struct graph_object *object)
{
    const struct graph_type *type = &graph->types.items[object->type];
    if (type->kind == KIND_NOREFERENCES || type->kind == KIND_ARRAY || type->kind == KIND_STRING)
        return;
    uint32_t at = 0;
    size_t steps = 0;
    for (uint32_t i = 0; i < object->n_refs; i++) {
        struct graph_ref *ref = &graph->refs.items[object->refs + i];
        if (ref->field != NOTHING)
            return; // internals of the runtime end the list
        while (type && at >= type->n_fields) {
            at -= type->n_fields;
            type = ++steps < SUPERCLASSES_MAX ? superclass_of(im, graph, type) : NULL;
        }
        if (!type)
            return;
        uint32_t field = graph->fields_of_types.items[type->fields + at++];
        if (field == NOTHING || graph->fields.items[field].name == STRSET_NONE)
            malformed(im, graph);
        else
            ref->field = field;
    }
}

static void types_resolve(struct import *im, struct graph *graph)
{
    uint32_t internal = field_get(graph, UINT64_MAX);
    if (internal != NOTHING && graph->fields.items[internal].name == STRSET_NONE)
        graph->fields.items[internal].name = string_of(im, "runtimeInternalObjects");
    for (size_t i = 0; i < graph->types.n; i++) {
        struct graph_type *type = &graph->types.items[i];
        if (type->classloader)
            type->loader = object_get(graph, type->classloader);
        if (!type->has_location)
            continue;
        const uint64_t *name = map64_find(&graph->location_ids, type->location);
        if (name)
            type->location_name = (uint32_t)*name;
        else
            stats_add_at(&im->stats, STAT_heap_graph_invalid_string_id, (uint32_t)graph->upid, 1);
    }
    bool is_incomplete = false;
    for (size_t i = 0; i < graph->objects.n; i++) {
        struct graph_object *object = &graph->objects.items[i];
        if (object->type == NOTHING)
            continue;
        if (!graph->types.items[object->type].is_known) {
            is_incomplete |= !object->self_size || object->fields_of_type;
            continue;
        }
        if (!object->self_size)
            object->self_size = (int64_t)graph->types.items[object->type].object_size;
        if (object->fields_of_type)
            fields_apply(im, graph, object);
    }
    if (is_incomplete)
        malformed(im, graph);
}

static int rank(uint8_t root)
{
    static const uint8_t first[] = {5, 1, 2}; // sticky class, JNI global, JNI local
    for (int i = 0; i < 3; i++)
        if (root == first[i])
            return i;
    return 3;
}

static void children_mark(struct graph *graph, const struct graph_object *object, uint32_t referent,
                          struct graph_index_vec *queue)
{
    bool is_weak =
        object->type != NOTHING && graph->types.items[object->type].kind >= KIND_WEAK_REFERENCE;
    for (uint32_t i = 0; i < object->n_refs; i++) {
        const struct graph_ref *ref = &graph->refs.items[object->refs + i];
        if (ref->owned == NOTHING || (is_weak && field_of_ref(graph, ref) == referent))
            continue;
        struct graph_object *child = &graph->objects.items[ref->owned];
        if (child->distance >= 0)
            continue;
        child->distance = object->distance + 1;
        graph->failed |= graph_index_vec_push(queue, ref->owned) < 0;
    }
}

static void root_mark(struct graph *graph, uint32_t index, uint8_t type,
                      struct graph_index_vec *queue)
{
    struct graph_object *object = &graph->objects.items[index];
    if (object->root == N_ROOTS || rank(type) < rank(object->root))
        object->root = type;
    if (object->distance == 0)
        return;
    object->distance = 0;
    graph->failed |= graph_index_vec_push(queue, index) < 0;
}

static void roots_mark(struct import *im, struct graph *graph)
{
    uint32_t referent = string_of(im, "java.lang.ref.Reference.referent");
    struct graph_index_vec queue = {0};
    vec_foreach(&graph->roots, root) {
        const uint64_t *index = map64_find(&graph->object_ids, root->object);
        if (index)
            root_mark(graph, (uint32_t)*index, root->type, &queue);
    }
    for (size_t i = 0; i < graph->objects.n; i++)
        if (graph->objects.items[i].heap >= HEAP_ZYGOTE)
            root_mark(graph, (uint32_t)i, ROOT_VM_INTERNAL, &queue);
    for (size_t i = 0; i < queue.n; i++)
        children_mark(graph, &graph->objects.items[queue.items[i]], referent, &queue);
    graph_index_vec_done(&queue);
}

// What a class object is of: "java.lang.Class<NAME>". False: it is of an array, or is none.
static bool class_object_name(struct import *im, const char *text, uint32_t *ret)
{
    static const char begin_text[] = "java.lang.Class<";
    size_t skipped = sizeof(begin_text) - 1, size = text ? strlen(text) : 0;
    if (size <= skipped || text[size - 1] != '>' || memcmp(text, begin_text, skipped) != 0)
        return false;
    size -= skipped + 1;
    if (size >= 2 && memcmp(text + skipped + size - 2, "[]", 2) == 0)
        return false;
    *ret = strset_add(&im->strings, text + skipped, size);
    return true;
}

static uint32_t class_key(struct strset *keys, uint32_t name, uint32_t location)
{
    uint32_t key[] = {name, location};
    return strset_add(keys, (const char *)key, sizeof(key));
}

// A class object refers to that of the class above it.
static void superclasses_find(struct import *im, struct graph *graph)
{
    uint32_t field = string_of(im, "java.lang.Class.superClass");
    struct strset keys = {0};
    struct map64 rows = {0}; // of classes, by key
    struct map64 above = {0};
    for (size_t i = 0; i < graph->types.n; i++) {
        const struct graph_type *type = &graph->types.items[i];
        graph->failed |= map64_set(&rows, class_key(&keys, type->name, type->location_name), i) < 0;
    }
    for (size_t i = 0; i < graph->objects.n; i++) {
        const struct graph_object *object = &graph->objects.items[i];
        uint32_t super = object->n_refs && object->type != NOTHING
                             ? referred(graph, (uint32_t)i, field)
                             : NOTHING;
        if (super == NOTHING || graph->objects.items[super].type == NOTHING)
            continue;
        const struct graph_type *type = &graph->types.items[object->type];
        const struct graph_type *super_type = &graph->types.items[graph->objects.items[super].type];
        uint32_t name, super_name;
        if (class_object_name(im, strset_text(&im->strings, type->name), &name) &&
            class_object_name(im, strset_text(&im->strings, super_type->name), &super_name))
            graph->failed |= map64_set(&above, class_key(&keys, name, type->location_name),
                                       class_key(&keys, super_name, super_type->location_name)) < 0;
    }
    for (size_t i = 0; i < graph->types.n; i++) {
        struct graph_type *type = &graph->types.items[i];
        const uint64_t *key = map64_find(&above, class_key(&keys, type->name, type->location_name));
        const uint64_t *row = key ? map64_find(&rows, *key) : NULL;
        type->super = row ? (uint32_t)*row : NOTHING;
    }
    map64_done(&rows);
    map64_done(&above);
    strset_done(&keys);
}

// Native memory that an object owns: its Cleaner's thunk knows the registry, which has the size.
static void native_sizes_find(struct import *im, struct graph *graph)
{
    uint32_t cleaner = string_of(im, "sun.misc.Cleaner");
    uint32_t referent = string_of(im, "java.lang.ref.Reference.referent");
    uint32_t thunk_name = string_of(im, "sun.misc.Cleaner.thunk");
    uint32_t next = string_of(im, "sun.misc.Cleaner.next");
    uint32_t outer = string_of(im, "libcore.util.NativeAllocationRegistry$CleanerThunk.this$0");
    for (uint32_t i = 0; i < graph->objects.n; i++) {
        const struct graph_object *object = &graph->objects.items[i];
        if (object->type == NOTHING || graph->types.items[object->type].name != cleaner)
            continue;
        uint32_t owner = referred(graph, i, referent), thunk = referred(graph, i, thunk_name);
        bool has_run = referred(graph, i, next) == i;
        if (owner == NOTHING || thunk == NOTHING || has_run)
            continue;
        uint32_t registry = referred(graph, thunk, outer);
        const uint64_t *size =
            registry == NOTHING ? NULL : map64_find(&graph->registry_sizes, registry);
        if (size)
            graph->objects.items[owner].native_size =
                (int64_t)((uint64_t)graph->objects.items[owner].native_size +
                          (*size & ~(uint64_t)IS_MALLOCED));
    }
}

static void classes_write(struct import *im, const struct heap_graphs *state,
                          const struct graph *graph)
{
    for (size_t i = 0; i < graph->types.n; i++) {
        const struct graph_type *type = &graph->types.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_class, state->n_classes + (int64_t)i);
        cell_text(row, COL_heap_graph_class_name, strset_text(&im->strings, type->name));
        cell_text(row, COL_heap_graph_class_location,
                  strset_text(&im->strings, type->location_name));
        if (type->super != NOTHING)
            cell_int(row, COL_heap_graph_class_superclass_id, state->n_classes + type->super);
        if (type->loader != NOTHING)
            cell_int(row, COL_heap_graph_class_classloader_id, state->n_objects + type->loader);
        if (type->is_known)
            cell_text(row, COL_heap_graph_class_kind, kind_names[type->kind]);
    }
}

static void objects_write(struct import *im, const struct heap_graphs *state,
                          const struct graph *graph)
{
    for (size_t i = 0; i < graph->objects.n; i++) {
        const struct graph_object *object = &graph->objects.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_object, state->n_objects + (int64_t)i);
        cell_int(row, COL_heap_graph_object_upid, graph->upid);
        cell_int(row, COL_heap_graph_object_graph_sample_ts, graph->ts);
        cell_int(row, COL_heap_graph_object_native_size, object->native_size);
        cell_int(row, COL_heap_graph_object_reachable, object->distance >= 0);
        cell_text(row, COL_heap_graph_object_heap_type, heap_names[object->heap]);
        cell_int(row, COL_heap_graph_object_root_distance, object->distance);
        if (object->n_refs)
            cell_int(row, COL_heap_graph_object_reference_set_id, state->n_refs + object->refs);
        if (object->root < N_ROOTS)
            cell_text(row, COL_heap_graph_object_root_type, root_names[object->root]);
        if (object->type == NOTHING)
            continue;
        if (object->self_size || graph->types.items[object->type].is_known)
            cell_int(row, COL_heap_graph_object_self_size, object->self_size);
        cell_int(row, COL_heap_graph_object_type_id, state->n_classes + object->type);
    }
}

static void refs_write(struct import *im, const struct heap_graphs *state,
                       const struct graph *graph)
{
    for (size_t i = 0; i < graph->refs.n; i++) {
        const struct graph_ref *ref = &graph->refs.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_reference, state->n_refs + (int64_t)i);
        cell_int(row, COL_heap_graph_reference_reference_set_id, state->n_refs + ref->set);
        cell_int(row, COL_heap_graph_reference_owner_id, state->n_objects + ref->owner);
        if (ref->owned != NOTHING)
            cell_int(row, COL_heap_graph_reference_owned_id, state->n_objects + ref->owned);
        if (ref->field == NOTHING)
            continue;
        const struct graph_field *field = &graph->fields.items[ref->field];
        cell_text(row, COL_heap_graph_reference_field_name, strset_text(&im->strings, field->name));
        cell_text(row, COL_heap_graph_reference_field_type_name,
                  strset_text(&im->strings, field->type));
    }
}

static int graph_note(struct heap_graphs *state, const struct graph *graph)
{
    int64_t key[] = {graph->upid, graph->ts};
    uint32_t index = strset_add(&state->keys, (const char *)key, sizeof(key));
    struct graph_row initial = {.upid = graph->upid, .ts = graph->ts};
    if (index == STRSET_NONE ||
        (index == state->rows.n && graph_row_vec_push(&state->rows, initial) < 0))
        return -ENOMEM;
    struct graph_row *row = &state->rows.items[index];
    row->truncated |= graph->truncated;
    if (graph->has_size) {
        row->has_size = true;
        row->heap_size = graph->heap_size;
    }
    return 0;
}

static int graph_finish(struct import *im, struct heap_graphs *state, struct graph *graph)
{
    if (!graph->failed && graph->has_begun) {
        types_resolve(im, graph);
        roots_mark(im, graph);
        superclasses_find(im, graph);
        native_sizes_find(im, graph);
    }
    if (graph->failed)
        return -ENOMEM;
    if (!graph->has_begun)
        return 0;
    classes_write(im, state, graph);
    objects_write(im, state, graph);
    refs_write(im, state, graph);
    state->n_classes += (int64_t)graph->types.n;
    state->n_objects += (int64_t)graph->objects.n;
    state->n_refs += (int64_t)graph->refs.n;
    import_bounds(im, graph->ts);
    return graph_note(state, graph);
}

static struct graph *graph_of(struct heap_graphs *state, uint32_t sequence)
{
    const uint64_t *found = map64_find(&state->open, sequence);
    if (found)
        return (struct graph *)(uintptr_t)*found;
    struct graph *graph = calloc(1, sizeof(*graph));
    if (graph && map64_set(&state->open, sequence, (uintptr_t)graph) < 0) {
        free(graph);
        return NULL;
    }
    return graph;
}

static void index_check(struct import *im, struct graph *graph, uint64_t index)
{
    if (index != (graph->has_index ? graph->index + 1 : 0)) {
        graph->truncated = true;
        stats_add_at(&im->stats, STAT_heap_graph_missing_packet, (uint32_t)graph->upid, 1);
    }
    graph->has_index = true;
    graph->index = index;
}

static void part_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                      const struct wire_field *field, bool *broken)
{
    switch (field->number) {
    case GRAPH_OBJECTS:
        *broken = !object_read(im, graph, upid, ts, field);
        break;
    case GRAPH_TYPES:
        type_read(im, graph, field);
        break;
    case GRAPH_FIELD_NAMES:
        field_name_read(im, graph, field);
        break;
    case GRAPH_LOCATION_NAMES:
        location_read(im, graph, field);
        break;
    case GRAPH_ROOTS:
        *broken = !root_read(im, graph, upid, ts, field);
        break;
    default:
        break;
    }
}

static int heap_graph_sorted(struct import *im, void *userdata, const struct packet *packet,
                             const struct wire_field *message)
{
    struct heap_graphs *state = userdata;
    struct graph *graph = graph_of(state, packet->sequence_id);
    if (!graph)
        return -ENOMEM;
    MESSAGE(head, GRAPH_HEAP_SIZE, message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&head[GRAPH_PID]));
    index_check(im, graph, field_u64(&head[GRAPH_INDEX]));
    if (field_present(&head[GRAPH_HEAP_SIZE])) {
        graph->has_size = true;
        graph->heap_size = field_i64(&head[GRAPH_HEAP_SIZE]);
    }
    bool broken[GRAPH_HEAP_SIZE] = {false}; // lists of which the rest is not believed
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (graph->failed || field.number >= GRAPH_HEAP_SIZE || field.type != WIRE_BYTES ||
            broken[field.number])
            continue;
        part_read(im, graph, upid, packet->ts, &field, &broken[field.number]);
        if (broken[field.number])
            malformed(im, graph);
    }
    if (field_u64(&head[GRAPH_CONTINUED]) && !graph->failed)
        return 0;
    map64_remove(&state->open, packet->sequence_id);
    if (!graph->has_begun)
        begin(im, graph, upid, packet->ts);
    int r = graph_finish(im, state, graph);
    graph_free(graph);
    return r;
}

static int heap_graph_finish(struct import *im, void *userdata)
{
    struct heap_graphs *state = userdata;
    size_t cursor = 0;
    const struct map64_slot *slot;
    int r = 0;
    if (state->open.n)
        stats_add(&im->stats, STAT_heap_graph_non_finalized_graph, 1);
    while (r == 0 && (slot = map64_next(&state->open, &cursor)))
        r = graph_finish(im, state, (struct graph *)(uintptr_t)slot->value);
    vec_foreach(&state->rows, graph) {
        struct cell *row = database_row(im->db, TABLE_heap_graph, NULL);
        cell_int(row, COL_heap_graph_ts, graph->ts);
        cell_int(row, COL_heap_graph_upid, graph->upid);
        cell_int(row, COL_heap_graph_truncated, graph->truncated);
        if (graph->has_size)
            cell_int(row, COL_heap_graph_heap_size, graph->heap_size);
    }
    return r;
}

static void heap_graph_done(void *userdata)
{
    struct heap_graphs *state = userdata;
    size_t cursor = 0;
    const struct map64_slot *slot;
    while ((slot = map64_next(&state->open, &cursor)))
        graph_free((struct graph *)(uintptr_t)slot->value);
    map64_done(&state->open);
    strset_done(&state->keys);
    graph_row_vec_done(&state->rows);
}

const struct importer importer_heap_graph = {
    .field = PACKET_HEAP_GRAPH,
    .sorted = heap_graph_sorted,
    .state_size = sizeof(struct heap_graphs),
    .finish = heap_graph_finish,
    .done = heap_graph_done,
};
