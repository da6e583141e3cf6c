// SPDX-License-Identifier: Apache-2.0
//
// The rows of a dump follow the rows of earlier dumps.
#include <errno.h>

#include "converter/import/heap_graph/parts.h"

static const char *const root_names[N_ROOTS] = {
    "ROOT_UNKNOWN",           "ROOT_JNI_GLOBAL",      "ROOT_JNI_LOCAL",    "ROOT_JAVA_FRAME",
    "ROOT_NATIVE_STACK",      "ROOT_STICKY_CLASS",    "ROOT_THREAD_BLOCK", "ROOT_MONITOR_USED",
    "ROOT_THREAD_OBJECT",     "ROOT_INTERNED_STRING", "ROOT_FINALIZING",   "ROOT_DEBUGGER",
    "ROOT_REFERENCE_CLEANUP", "ROOT_VM_INTERNAL",     "ROOT_JNI_MONITOR",
};

static const char *const kind_names[N_KINDS] = {
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

static const char *const heap_names[N_HEAPS] = {
    NULL,
    "HEAP_TYPE_APP",
    "HEAP_TYPE_ZYGOTE",
    "HEAP_TYPE_BOOT_IMAGE",
};

static void classes_write(struct import *im, const struct graph *graph, const struct graph_ids *ids)
{
    for (size_t i = 0; i < graph->types.n; i++) {
        const struct graph_type *type = &graph->types.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_class, ids->n_classes + (int64_t)i);
        cell_text(row, COL_heap_graph_class_name, strset_text(&im->strings, type->name));
        cell_text(row, COL_heap_graph_class_deobfuscated_name,
                  strset_text(&im->strings, type->real_name));
        cell_text(row, COL_heap_graph_class_location,
                  strset_text(&im->strings, type->location_name));
        if (type->super != NOTHING)
            cell_int(row, COL_heap_graph_class_superclass_id, ids->n_classes + type->super);
        if (type->loader != NOTHING)
            cell_int(row, COL_heap_graph_class_classloader_id, ids->n_objects + type->loader);
        if (type->is_known)
            cell_text(row, COL_heap_graph_class_kind, kind_names[type->kind]);
    }
}

// Writes the data of bitmaps. *ret: object -> row.
static void bitmaps_write(struct import *im, const struct graph *graph, struct map64 *ret)
{
    static const struct {
        const char *name, *type;
        size_t column;
    } fields[N_BITMAP_FIELDS] = {
        {"android.graphics.Bitmap.mId", "long", COL_heap_graph_primitive_long_value},
        {"android.graphics.Bitmap.mSourceId", "long", COL_heap_graph_primitive_long_value},
        {"android.graphics.Bitmap.mWidth", "int", COL_heap_graph_primitive_int_value},
        {"android.graphics.Bitmap.mHeight", "int", COL_heap_graph_primitive_int_value},
    };
    int r = 0;
    vec_foreach(&graph->bitmaps, bitmap) {
        int64_t set = -1, id;
        for (size_t i = 0; i < N_BITMAP_FIELDS; i++) {
            if (!bitmap->has[i])
                continue;
            struct cell *row = database_row(im->db, TABLE_heap_graph_primitive, &id);
            set = set < 0 ? id : set;
            cell_int(row, COL_heap_graph_primitive_field_set_id, set);
            cell_text(row, COL_heap_graph_primitive_field_name, fields[i].name);
            cell_text(row, COL_heap_graph_primitive_field_type, fields[i].type);
            cell_int(row, fields[i].column, bitmap->values[i]);
        }
        struct cell *row = database_row(im->db, TABLE_heap_graph_object_data, &id);
        cell_int(row, COL_heap_graph_object_data_field_set_id, set);
        if (map64_set(ret, bitmap->object, (uint64_t)id) < 0)
            r = -ENOMEM;
    }
    import_fail(im, r);
}

static void objects_write(struct import *im, const struct graph *graph, const struct graph_ids *ids,
                          const struct map64 *bitmaps)
{
    for (size_t i = 0; i < graph->objects.n; i++) {
        const struct graph_object *object = &graph->objects.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_object, ids->n_objects + (int64_t)i);
        cell_int(row, COL_heap_graph_object_upid, graph->upid);
        cell_int(row, COL_heap_graph_object_graph_sample_ts, graph->ts);
        cell_int(row, COL_heap_graph_object_native_size, object->native_size);
        cell_int(row, COL_heap_graph_object_reachable, object->distance >= 0);
        cell_text(row, COL_heap_graph_object_heap_type, heap_names[object->heap]);
        cell_int(row, COL_heap_graph_object_root_distance, object->distance);
        if (object->n_refs)
            cell_int(row, COL_heap_graph_object_reference_set_id, ids->n_refs + object->refs);
        if (object->root < N_ROOTS)
            cell_text(row, COL_heap_graph_object_root_type, root_names[object->root]);
        const uint64_t *data = bitmaps->n ? map64_find(bitmaps, i) : NULL;
        if (data)
            cell_int(row, COL_heap_graph_object_object_data_id, (int64_t)*data);
        if (object->type == NOTHING)
            continue;
        if (object->self_size || graph->types.items[object->type].is_known)
            cell_int(row, COL_heap_graph_object_self_size, object->self_size);
        cell_int(row, COL_heap_graph_object_type_id, ids->n_classes + object->type);
    }
}

static void refs_write(struct import *im, const struct graph *graph, const struct graph_ids *ids)
{
    for (size_t i = 0; i < graph->refs.n; i++) {
        const struct graph_ref *ref = &graph->refs.items[i];
        struct cell *row =
            database_row_with_id(im->db, TABLE_heap_graph_reference, ids->n_refs + (int64_t)i);
        cell_int(row, COL_heap_graph_reference_reference_set_id, ids->n_refs + ref->set);
        cell_int(row, COL_heap_graph_reference_owner_id, ids->n_objects + ref->owner);
        if (ref->owned != NOTHING)
            cell_int(row, COL_heap_graph_reference_owned_id, ids->n_objects + ref->owned);
        if (ref->field == NOTHING)
            continue;
        const struct graph_field *field = &graph->fields.items[ref->field];
        cell_text(row, COL_heap_graph_reference_field_name, strset_text(&im->strings, field->name));
        cell_text(row, COL_heap_graph_reference_field_type_name,
                  strset_text(&im->strings, field->type));
        cell_text(row, COL_heap_graph_reference_deobfuscated_field_name,
                  strset_text(&im->strings, field->real_name));
    }
}

void graph_write(struct import *im, const struct graph *graph, struct graph_ids *ids)
{
    struct map64 bitmaps = {0};
    bitmaps_write(im, graph, &bitmaps);
    classes_write(im, graph, ids);
    objects_write(im, graph, ids, &bitmaps);
    map64_done(&bitmaps);
    refs_write(im, graph, ids);
    ids->n_classes += (int64_t)graph->types.n;
    ids->n_objects += (int64_t)graph->objects.n;
    ids->n_refs += (int64_t)graph->refs.n;
}
