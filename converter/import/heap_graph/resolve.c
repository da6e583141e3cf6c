// SPDX-License-Identifier: Apache-2.0
//
// Data that need the whole dump: references without names get the names of their type's fields,
// distances from the roots show reachable objects, class objects show superclasses, and Cleaners
// show native memory. Each step is one pass over the objects or a breadth-first search.
#include <string.h>

#include "common/str.h"
#include "common/text.h"
#include "converter/import/heap_graph/parts.h"
#include "converter/import/profile/deobfuscation.h"
#include "protos/fields.h"

#define SUPERCLASSES_MAX 1000 // superclasses of a class; more superclasses are a cycle
#define IS_MALLOCED      1    // flag in a registry's size

static uint32_t string_of(struct import *im, const char *text)
{
    return strset_add(&im->strings, text, strlen(text));
}

static uint32_t field_of_ref(const struct graph *graph, const struct graph_ref *ref)
{
    return ref->field == NOTHING ? STRSET_NONE : graph->fields.items[ref->field].name;
}

// Returns the object that the field `name` of `object` refers to.
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

static uint32_t superclass_of(const struct graph *graph, uint32_t type)
{
    uint64_t id = graph->types.items[type].superclass;
    const uint64_t *index = id ? map64_find(&graph->type_ids, id) : NULL;
    return index && graph->types.items[*index].is_known ? (uint32_t)*index : NOTHING;
}

// Returns the nearest type with fields: this type or a superclass. All types on the way keep the
// result, so a long way is walked once. NOTHING: no type, or a cycle.
static uint32_t type_with_fields(struct graph *graph, uint32_t type)
{
    struct graph_type *types = graph->types.items;
    uint32_t found = type;
    size_t n = 0;
    for (; found != NOTHING && !types[found].n_fields && !types[found].has_above; n++)
        found = n < SUPERCLASSES_MAX ? superclass_of(graph, found) : NOTHING;
    if (found != NOTHING && !types[found].n_fields)
        found = types[found].above;
    for (uint32_t at = type; n > 0 && at != NOTHING; n--) {
        types[at].above = found;
        types[at].has_above = true;
        at = superclass_of(graph, at);
    }
    return found;
}

// Gives the references of an object the fields of the object's type, then the fields of its
// superclasses.
static void fields_apply(struct import *im, struct graph *graph, const struct graph_object *object)
{
    uint32_t type = object->type;
    uint8_t kind = graph->types.items[type].kind;
    if (kind == PB_KIND_NOREFERENCES || kind == PB_KIND_ARRAY || kind == PB_KIND_STRING)
        return;
    uint32_t at = 0;
    size_t steps = 0;
    for (uint32_t i = 0; i < object->n_refs; i++) {
        struct graph_ref *ref = &graph->refs.items[object->refs + i];
        if (ref->field != NOTHING)
            return; // references inside of the runtime end the list
        while (type != NOTHING && at >= graph->types.items[type].n_fields) {
            at -= graph->types.items[type].n_fields;
            type = ++steps < SUPERCLASSES_MAX ? superclass_of(graph, type) : NOTHING;
            type = type == NOTHING ? NOTHING : type_with_fields(graph, type);
        }
        if (type == NOTHING) {
            graph_malformed(im, graph);
            return;
        }
        uint32_t field = graph->fields_of_types.items[graph->types.items[type].fields + at++];
        if (field == NOTHING || graph->fields.items[field].name == STRSET_NONE)
            graph_malformed(im, graph);
        else
            ref->field = field;
    }
}

static void types_resolve(struct import *im, struct graph *graph)
{
    uint32_t internal = graph_field_get(graph, UINT64_MAX);
    if (internal != NOTHING && graph->fields.items[internal].name == STRSET_NONE)
        graph->fields.items[internal].name = string_of(im, "runtimeInternalObjects");
    for (size_t i = 0; i < graph->types.n; i++) {
        struct graph_type *type = &graph->types.items[i];
        if (type->classloader)
            type->loader = graph_object_get(graph, type->classloader);
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
        graph_malformed(im, graph);
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
        object->type != NOTHING && graph->types.items[object->type].kind >= PB_KIND_WEAK_REFERENCE;
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
        if (graph->objects.items[i].heap >= PB_HEAP_TYPE_ZYGOTE)
            root_mark(graph, (uint32_t)i, PB_ROOT_VM_INTERNAL, &queue);
    for (size_t i = 0; i < queue.n; i++)
        children_mark(graph, &graph->objects.items[queue.items[i]], referent, &queue);
    graph_index_vec_done(&queue);
}

// *ret: the class NAME of a class object "java.lang.Class<NAME>". False: the class of an array, or
// another kind of object.
static bool class_object_name(struct import *im, const char *text, uint32_t *ret)
{
    static const char begin_text[] = "java.lang.Class<";
    size_t skipped = sizeof(begin_text) - 1, size = text ? strlen(text) : 0;
    if (size <= skipped || text[size - 1] != '>' || memcmp(text, begin_text, skipped) != 0)
        return false;
    size -= skipped + 1;
    if (text_ends_with((struct text){text + skipped, size}, TEXT("[]")))
        return false;
    *ret = strset_add(&im->strings, text + skipped, size);
    return true;
}

static uint32_t class_key(struct strset *keys, uint32_t name, uint32_t location)
{
    uint32_t key[] = {name, location};
    return strset_add(keys, (const char *)key, sizeof(key));
}

// Finds superclasses: a class object refers to the class object of its superclass.
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

// Finds the native memory of objects: the thunk of an object's Cleaner refers to the registry,
// which has the size.
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

// Finds names before obfuscation. Called after types_resolve(), which sets the locations of
// classes.
static void names_deobfuscate(struct import *im, struct graph *graph)
{
    vec_foreach(&graph->types, type) {
        const char *name = strset_text(&im->strings, type->name);
        const char *location = strset_text(&im->strings, type->location_name);
        if (name)
            type->real_name =
                deobfuscated_class(im, name, deobfuscation_package(im, graph->upid, location));
    }
    vec_foreach(&graph->fields, field) {
        const char *name = strset_text(&im->strings, field->name);
        if (name)
            field->real_name = deobfuscated_field(im, name);
    }
}

void graph_resolve(struct import *im, struct graph *graph)
{
    types_resolve(im, graph);
    roots_mark(im, graph);
    superclasses_find(im, graph);
    native_sizes_find(im, graph);
    if (deobfuscation_of(im)->mappings.n)
        names_deobfuscate(im, graph);
}
