// SPDX-License-Identifier: Apache-2.0
//
// Tracks of counters, slices and states. The type and dimensions identify a track.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/import/args.h"

#define TRACK_DIMENSIONS_MAX 6
// Bytes kept of a name or a text. Each event looks up a track, and an event of a few bytes can
// refer to a track with a long name.
#define TRACK_TEXT_MAX 4096

struct track_dimension {
    const char *name; // static; "upid", "utid" and "cpu" also fill those columns
    const char *text; // NULL: the dimension is a number
    size_t size;
    int64_t number;
};

static inline struct track_dimension dimension_int(const char *name, int64_t number)
{
    return (struct track_dimension){.name = name, .number = number};
}

static inline struct track_dimension dimension_text(const char *name, const void *text, size_t size)
{
    return (struct track_dimension){
        .name = name, .text = text ? text : "", .size = str_cut(text, size, TRACK_TEXT_MAX)};
}

static inline struct track_dimension dimension_name(const char *key, struct slice_name name)
{
    return dimension_text(key, name.text, name.size);
}

struct track_spec {
    const char *type;    // static
    const char *unit;    // static; NULL: unknown
    bool counter, state; // neither: a track of slices
    struct track_dimension
        dimensions[TRACK_DIMENSIONS_MAX]; // up to the first dimension without a name
    struct slice_name name;               // copied; does not identify the track
};

struct track {
    const char *type, *unit, *description;
    uint32_t name; // in strings, STRSET_NONE: none
    bool counter, state;
    bool replaced; // by another track; has no row
    int64_t parent_id, dimension_set, source_set;
    int64_t group;           // number of a group of tracks that viewers show as one; -1: none
    int64_t upid, utid, cpu; // -1: none
    uint32_t machine;
};
VEC_DEFINE(track_vec, struct track);

struct tracks {
    struct strset keys; // type and dimensions as bytes; ids are track ids
    struct track_vec items;
    struct strbuf key;       // buffer for the key of a track
    uint32_t machine;        // the current machine
    struct strset *strings;  // borrowed
    struct args *args;       // borrowed
    struct failure *failure; // borrowed
};

// Returns the track of `spec`; creates a new track if needed. 0 after a failure.
uint32_t tracks_get(struct tracks *tracks, const struct track_spec *spec);

// Sets the name of a track.
void tracks_name(struct tracks *tracks, uint32_t track, const char *name, size_t size);

// Sets the source args of a track, unless the track has source args already.
void track_describe(struct tracks *tracks, uint32_t track, const struct arg *args, size_t n);

// Appends the track's key: type and dimensions as bytes.
void track_key_make(const struct tracks *tracks, struct strbuf *key, const struct track_spec *spec);

void tracks_write(const struct tracks *tracks, struct database *db);
void tracks_done(struct tracks *tracks);
