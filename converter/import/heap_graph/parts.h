// SPDX-License-Identifier: Apache-2.0
//
// Parts of the importer of Java heap graphs: reading a dump (read.c), finding the data that need
// the whole dump (resolve.c), and writing the rows (write.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define NOTHING UINT32_MAX

// Numbers of types, kinds and heaps with names; larger numbers are read as 0.
#define N_ROOTS 15
#define N_KINDS 12
#define N_HEAPS 4

struct graph_object {
    int64_t self_size, native_size;
    uint32_t type;         // NOTHING: the dump lacks the object itself
    uint32_t refs, n_refs; // begin and number of its references
    uint8_t heap, root;    // root: N_ROOTS: none
    int32_t distance;      // from a root; -1: unreachable
    bool fields_of_type;   // its references are the fields of its type, in order
};
VEC_DEFINE(graph_object_vec, struct graph_object);

struct graph_ref {
    uint32_t owner, owned, field, set;
};
VEC_DEFINE(graph_ref_vec, struct graph_ref);

struct graph_field {
    uint32_t name, type, real_name; // strings; real_name: before obfuscation
};
VEC_DEFINE(graph_field_vec, struct graph_field);

struct graph_type {
    uint64_t location, object_size, superclass, classloader;
    uint32_t name, real_name;  // strings; real_name: before obfuscation
    uint32_t fields, n_fields; // in fields_of_types
    uint32_t location_name;    // string
    uint32_t super;            // class, NOTHING: unknown
    uint32_t loader;           // object
    uint32_t above;            // the nearest type with fields: this type or a superclass
    uint8_t kind;
    bool has_location, is_known, has_above;
};
VEC_DEFINE(graph_type_vec, struct graph_type);

// Fields of a bitmap.
enum { BITMAP_ID, BITMAP_SOURCE_ID, BITMAP_WIDTH, BITMAP_HEIGHT, N_BITMAP_FIELDS };
struct graph_bitmap {
    uint32_t object;
    bool has[N_BITMAP_FIELDS];
    int64_t values[N_BITMAP_FIELDS];
};
VEC_DEFINE(graph_bitmap_vec, struct graph_bitmap);

struct graph_root {
    uint64_t object;
    uint8_t type;
};
VEC_DEFINE(graph_root_vec, struct graph_root);
VEC_DEFINE(graph_index_vec, uint32_t);
VEC_DEFINE(graph_number_vec, uint64_t);

// The dump of a sequence while it is read.
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
    struct graph_bitmap_vec bitmaps;
    struct graph_number_vec numbers; // of the current list
};

// Numbers of rows of earlier dumps; the rows of the next dump follow.
struct graph_ids {
    int64_t n_classes, n_objects, n_refs;
};

// Reads a part of the dump from a packet at `ts`. False: the part is damaged, and the rest of its
// list must be ignored.
bool graph_part_read(struct import *im, struct graph *graph, int64_t upid, int64_t ts,
                     const struct wire_field *field);

// Begins the dump, if it is new. Returns false if the open dump belongs to another process or time.
bool graph_begin(struct import *im, struct graph *graph, int64_t upid, int64_t ts);

// Return the index of the entry with this id; add a new entry if needed. NOTHING: too many entries,
// or graph->failed.
uint32_t graph_object_get(struct graph *graph, uint64_t id);
uint32_t graph_field_get(struct graph *graph, uint64_t id);

void graph_malformed(struct import *im, const struct graph *graph);

// Finds the data that need the whole dump: names of fields, names before obfuscation, reachability,
// superclasses, native sizes. Sets graph->failed if memory runs out.
void graph_resolve(struct import *im, struct graph *graph);

// Writes rows of classes, objects, references and bitmaps, and advances *ids.
void graph_write(struct import *im, const struct graph *graph, struct graph_ids *ids);

void graph_free(struct graph *graph);

extern const struct importer importer_heap_graph;

// Makes sure that heap_graph has a row of the process and time, also without a dump. `reason`, if
// not NULL, must live as long as the import. Returns the row's id, or -ENOMEM.
int64_t heap_graph_reason(struct import *im, int64_t upid, int64_t ts, const char *reason);
