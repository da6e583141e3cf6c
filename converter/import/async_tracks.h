// SPDX-License-Identifier: Apache-2.0
//
// Tracks of slices that may overlap and that a cookie distinguishes. A group has as few tracks as
// its overlapping slices need.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/tracks.h"

struct async_group;
VEC_DEFINE(async_group_vec, struct async_group *);

// Empty when all members but `tracks` are zero.
struct async_tracks {
    struct tracks *tracks;         // borrowed
    struct strset keys;            // ids are indexes in groups
    struct async_group_vec groups; // owned
    struct strbuf key;             // buffer for the key of a group
};

// Returns the track for a slice of `cookie` that begins or ends now. `spec` describes the group;
// the last dimension of `spec` must be unused. If `single` is set, nested begins count as one
// begin.
uint32_t async_track_begin(struct async_tracks *all, const struct track_spec *spec, int64_t cookie,
                           bool single);
uint32_t async_track_end(struct async_tracks *all, const struct track_spec *spec, int64_t cookie);

// Returns the track for a slice whose end is known.
uint32_t async_track_span(struct async_tracks *all, const struct track_spec *spec, int64_t ts,
                          int64_t dur);

// Returns the group's first track, for data of the whole group.
uint32_t async_track_first(struct async_tracks *all, const struct track_spec *spec);

void async_tracks_done(struct async_tracks *all);
