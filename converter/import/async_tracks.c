// SPDX-License-Identifier: Apache-2.0
//
// A track of a group is free when all slices begun on it have ended. A new cookie adopts the first
// free track. The old cookie keeps the track until the adoption, so an end finds its start. A map
// finds cookies and a heap finds free tracks, because a trace can open any number of tracks. A
// slice with a known end takes the first track whose last slice has ended. A tree over the tracks'
// ends, in which each node is the minimum of its children, finds that track.
#include "converter/import/async_tracks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"

struct async_track {
    int64_t cookie;
    uint32_t n_open;
    int64_t track; // -1: not made yet
};
VEC_DEFINE(async_track_vec, struct async_track);
VEC_DEFINE(async_index_vec, uint32_t);

// Tracks of slices whose ends are known.
struct async_spans {
    struct async_index_vec tracks; // indexes in the group's tracks
    int64_t *ends;   // ns, owned; a tree: the root at 1, the tracks' ends from `capacity` on
    size_t capacity; // a power of 2, or 0
};

struct async_group {
    struct async_track_vec tracks;
    struct async_spans spans;
    struct map64 by_cookie;      // -> index in tracks
    struct async_index_vec free; // a heap, smallest first; may hold tracks that are in use again
};

static void free_push(struct async_tracks *all, struct async_group *group, uint32_t index)
{
    struct async_index_vec *heap = &group->free;
    if (async_index_vec_push(heap, index) < 0) {
        failure_note(all->tracks->failure, -ENOMEM);
        return;
    }
    for (size_t i = heap->n - 1; i > 0 && heap->items[(i - 1) / 2] > heap->items[i];
         i = (i - 1) / 2) {
        uint32_t up = heap->items[(i - 1) / 2];
        heap->items[(i - 1) / 2] = heap->items[i];
        heap->items[i] = up;
    }
}

static uint32_t free_pop(struct async_index_vec *heap)
{
    uint32_t least = heap->items[0];
    uint32_t moved = heap->items[--heap->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && heap->items[child + 1] < heap->items[child])
            child++;
        if (heap->items[child] >= moved)
            break;
        heap->items[i] = heap->items[child];
        i = child;
    }
    if (heap->n)
        heap->items[i] = moved;
    return least;
}

static struct async_group *group_get(struct async_tracks *all, const struct track_spec *spec,
                                     uint32_t *ret_id)
{
    strbuf_clear(&all->key);
    track_key_make(all->tracks, &all->key, spec);
    uint32_t id =
        all->key.failed ? STRSET_NONE : strset_add(&all->keys, all->key.text, all->key.size);
    if (id != STRSET_NONE && id == all->groups.n) {
        struct async_group *made = memory_calloc(1, sizeof(*made));
        if (!made || async_group_vec_push(&all->groups, made) < 0) {
            free(made);
            id = STRSET_NONE;
        }
    }
    if (id == STRSET_NONE || id >= all->groups.n) {
        failure_note(all->tracks->failure, -ENOMEM);
        return NULL;
    }
    *ret_id = id;
    return all->groups.items[id];
}

static int64_t track_add(struct async_tracks *all, struct async_group *group,
                         struct async_track track)
{
    if (async_track_vec_push(&group->tracks, track) == 0)
        return (int64_t)group->tracks.n - 1;
    failure_note(all->tracks->failure, -ENOMEM);
    return -1;
}

static uint32_t track_id(struct async_tracks *all, const struct track_spec *spec,
                         struct async_group *group, uint32_t group_id, int64_t index)
{
    if (index < 0)
        return 0;
    struct async_track *track = &group->tracks.items[index];
    if (track->track >= 0)
        return (uint32_t)track->track;
    struct track_spec numbered = *spec;
    size_t n = 0;
    while (n < TRACK_DIMENSIONS_MAX - 1 && numbered.dimensions[n].name)
        n++;
    numbered.dimensions[n] = dimension_int("track_compressor_idx", index);
    uint32_t id = tracks_get(all->tracks, &numbered);
    if (id < all->tracks->items.n)
        all->tracks->items.items[id].group = group_id;
    track->track = id;
    return id;
}

// Returns the index in spans->tracks of the first track that is free at `ts`; tracks.n: none.
static size_t spans_find(const struct async_spans *spans, int64_t ts)
{
    if (!spans->capacity || spans->ends[1] > ts)
        return spans->tracks.n;
    size_t node = 1;
    while (node < spans->capacity)
        node = 2 * node + (spans->ends[2 * node] > ts);
    size_t at = node - spans->capacity; // places without a track come last
    return at < spans->tracks.n ? at : spans->tracks.n;
}

static void spans_set(struct async_spans *spans, size_t at, int64_t end)
{
    size_t node = spans->capacity + at;
    spans->ends[node] = end;
    while (node /= 2) {
        const int64_t *pair = &spans->ends[2 * node];
        spans->ends[node] = pair[0] < pair[1] ? pair[0] : pair[1];
    }
}

static bool spans_grow(struct async_spans *spans)
{
    struct async_spans grown = {.tracks = spans->tracks,
                                .capacity = spans->capacity ? spans->capacity * 2 : 4};
    grown.ends = memory_malloc(2 * grown.capacity * sizeof(*grown.ends));
    if (!grown.ends)
        return false;
    for (size_t i = 0; i < 2 * grown.capacity; i++)
        grown.ends[i] = INT64_MAX;
    for (size_t i = 0; i < spans->tracks.n; i++)
        spans_set(&grown, i, spans->ends[spans->capacity + i]);
    free(spans->ends);
    *spans = grown;
    return true;
}

static bool span_add(struct async_tracks *all, struct async_group *group)
{
    struct async_spans *spans = &group->spans;
    int64_t index = track_add(all, group, (struct async_track){.track = -1});
    if (index >= 0 && (spans->tracks.n < spans->capacity || spans_grow(spans)) &&
        async_index_vec_push(&spans->tracks, (uint32_t)index) == 0)
        return true;
    failure_note(all->tracks->failure, -ENOMEM);
    return false;
}

static int64_t cookie_index(struct async_tracks *all, struct async_group *group, int64_t cookie)
{
    const uint64_t *known = map64_find(&group->by_cookie, (uint64_t)cookie);
    if (known)
        return (int64_t)*known;
    int64_t index = -1;
    while (index < 0 && group->free.n) {
        index = free_pop(&group->free);
        if (group->tracks.items[index].n_open)
            index = -1;
    }
    if (index >= 0)
        map64_remove(&group->by_cookie, (uint64_t)group->tracks.items[index].cookie);
    else
        index = track_add(all, group, (struct async_track){.track = -1});
    if (index < 0)
        return -1;
    group->tracks.items[index].cookie = cookie;
    failure_note(all->tracks->failure,
                 map64_set(&group->by_cookie, (uint64_t)cookie, (uint64_t)index));
    return index;
}

// Returns the cookie's track and counts a begin or an end on the track.
static uint32_t cookie_track(struct async_tracks *all, const struct track_spec *spec,
                             int64_t cookie, bool begins, bool single)
{
    uint32_t group_id;
    struct async_group *group = group_get(all, spec, &group_id);
    if (!group)
        return 0;
    int64_t index = cookie_index(all, group, cookie);
    struct async_track *track = index < 0 ? NULL : &group->tracks.items[index];
    if (track && begins) {
        track->n_open = single ? 1 : track->n_open + 1;
    } else if (track) {
        track->n_open -= track->n_open > 0;
        if (!track->n_open)
            free_push(all, group, (uint32_t)index);
    }
    return track_id(all, spec, group, group_id, index);
}

uint32_t async_track_begin(struct async_tracks *all, const struct track_spec *spec, int64_t cookie,
                           bool single)
{
    return cookie_track(all, spec, cookie, true, single);
}

uint32_t async_track_end(struct async_tracks *all, const struct track_spec *spec, int64_t cookie)
{
    return cookie_track(all, spec, cookie, false, false);
}

uint32_t async_track_span(struct async_tracks *all, const struct track_spec *spec, int64_t ts,
                          int64_t dur)
{
    uint32_t group_id;
    struct async_group *group = group_get(all, spec, &group_id);
    if (!group)
        return 0;
    int64_t end = (int64_t)((uint64_t)ts + (uint64_t)dur);
    size_t at = spans_find(&group->spans, ts);
    if (at == group->spans.tracks.n && !span_add(all, group))
        return 0;
    spans_set(&group->spans, at, end);
    return track_id(all, spec, group, group_id, group->spans.tracks.items[at]);
}

uint32_t async_track_first(struct async_tracks *all, const struct track_spec *spec)
{
    uint32_t group_id;
    struct async_group *group = group_get(all, spec, &group_id);
    if (!group)
        return 0;
    if (!group->tracks.n && cookie_index(all, group, 0) == 0)
        free_push(all, group, 0);
    return track_id(all, spec, group, group_id, group->tracks.n ? 0 : -1);
}

void async_tracks_done(struct async_tracks *all)
{
    vec_foreach(&all->groups, group) {
        async_track_vec_done(&(*group)->tracks);
        map64_done(&(*group)->by_cookie);
        async_index_vec_done(&(*group)->spans.tracks);
        free((*group)->spans.ends);
        async_index_vec_done(&(*group)->free);
        free(*group);
    }
    async_group_vec_done(&all->groups);
    strset_done(&all->keys);
    strbuf_done(&all->key);
}
