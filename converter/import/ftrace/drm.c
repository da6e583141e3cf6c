// SPDX-License-Identifier: Apache-2.0
//
// Direct rendering (DRM): vertical blanks, fences, and the schedulers of GPUs. A ring runs one job
// at a time, and a timeline has one fence at a time. Further jobs and fences wait in a queue, and
// each slice begins at the end of the previous slice. Before Linux 6.17, the fence's address and a
// number on the ring identify a job; since then, the fence's context and number.
#include <errno.h>

#include "converter/import/ftrace/ftrace.h"

struct job {
    bool is_fence;
    uint64_t context; // of the fence; !is_fence: address of the fence
    uint64_t number;  // of the fence; !is_fence: number on the ring
};
VEC_DEFINE(job_vec, struct job);

// Queue of a track: the job or fence of the open slice, and its successors in order.
struct line {
    uint32_t track;
    struct job_vec jobs;
    size_t first;
    bool has_emit; // of a timeline: dma_fence_emit was seen
};
VEC_DEFINE(line_vec, struct line);

struct drm {
    struct map64 by_context;  // -> index in timelines
    struct map64 running;     // job -> index of its ring
    struct map64 queued;      // job on a ring -> slice that queued it
    struct strset ring_names; // ids are indexes in rings
    struct line_vec rings, timelines;
};

static void lines_done(struct line_vec *lines)
{
    vec_foreach(lines, line) {
        job_vec_done(&line->jobs);
    }
    line_vec_done(lines);
}

static void drm_done(void *state)
{
    struct drm *drm = state;
    strset_done(&drm->ring_names);
    lines_done(&drm->rings);
    lines_done(&drm->timelines);
}

static size_t line_size(const struct line *line)
{
    return line->jobs.n - line->first;
}

static int line_push(struct line *line, struct job job)
{
    if (line->first > 64 && line->first * 2 > line->jobs.n) {
        line->jobs.n -= line->first;
        memmove(line->jobs.items, line->jobs.items + line->first,
                line->jobs.n * sizeof(*line->jobs.items));
        line->first = 0;
    }
    return job_vec_push(&line->jobs, job);
}

static struct job *line_front(const struct line *line)
{
    return &line->jobs.items[line->first];
}

static void line_pop(struct line *line)
{
    if (++line->first == line->jobs.n)
        line->first = line->jobs.n = 0;
}

// Returns a hash of the members that identify a job. Two jobs collide with a chance of 2^-64.
static uint64_t job_key(const struct job *job, bool on_ring, uint64_t ring)
{
    uint64_t parts[] = {job->is_fence, on_ring ? ring + 1 : 0,
                        job->is_fence || !on_ring ? job->context : 0,
                        job->is_fence || on_ring ? job->number : 0};
    return hash_bytes(parts, sizeof(parts));
}

// Reads the job of an event. Forms of events since Linux 6.17 have a detail.
static struct job job_of(const struct ftrace_event *event)
{
    bool is_fence = event->detail != NULL;
    return (struct job){is_fence, (uint64_t)ftrace_int(event, is_fence ? "fence_context" : "fence"),
                        (uint64_t)ftrace_int(event, is_fence ? "fence_seqno" : "id")};
}

static size_t job_args(const struct job *job, struct arg *args)
{
    if (!job->is_fence) {
        args[0] = arg_uint("gpu sched job", job->number);
        return 1;
    }
    args[0] = arg_uint("fence context", job->context);
    args[1] = arg_uint("fence seqno", job->number);
    return 2;
}

static uint32_t line_track(struct import *im, const char *type, const char *prefix,
                           struct slice_name name, const uint64_t *context)
{
    int size = (int)(name.size < 240 ? name.size : 240);
    struct slice_name text =
        context ? import_text(im, "%s-%.*s-%u", prefix, size, name.text, (uint32_t)*context)
                : import_text(im, "%s-%.*s", prefix, size, name.text);
    struct track_spec track = {
        .type = type,
        .dimensions = {dimension_text("name", name.text, name.size)},
        .name = text,
    };
    if (context)
        track.dimensions[1] = dimension_int("context", (uint32_t)*context);
    return tracks_get(&im->tracks, &track);
}

// Returns the ring with this name; NULL: memory ran out.
static struct line *ring_get(struct import *im, struct drm *drm, struct slice_name name,
                             uint32_t *ret_index)
{
    *ret_index = strset_add(&drm->ring_names, name.text, name.size);
    if (*ret_index != STRSET_NONE && *ret_index < drm->rings.n)
        return &drm->rings.items[*ret_index];
    struct line ring = {.track = line_track(im, "drm_sched_ring", "sched", name, NULL)};
    if (*ret_index != STRSET_NONE && line_vec_push(&drm->rings, ring) == 0)
        return &drm->rings.items[*ret_index];
    import_fail(im, -ENOMEM);
    return NULL;
}

static void ring_begin(struct import *im, struct drm *drm, int64_t ts, const struct line *ring,
                       uint32_t index)
{
    struct arg args[2];
    const struct job *job = line_front(ring);
    struct slice_spec spec = {
        .ts = ts,
        .track = ring->track,
        .name = slice_name("job"),
        .args = args,
        .n_args = job_args(job, args),
    };
    int64_t slice = slice_begin(&im->slices, &spec);
    uint64_t key = job_key(job, true, index);
    const uint64_t *queued = map64_find(&drm->queued, key);
    if (slice == SLICE_NONE || !queued)
        return;
    flow_row_write(im, (int64_t)*queued, slice);
    map64_remove(&drm->queued, key);
}

static void job_queue(struct import *im, const struct ftrace_event *event)
{
    struct drm *drm = event->own;
    struct job job = job_of(event);
    struct slice_name name = ftrace_text(event, "name");
    struct arg args[3] = {arg_text("gpu sched ring", name.text, name.size)};
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .name = slice_name("drm_sched_job_queue"),
        .args = args,
        .n_args = 1 + job_args(&job, args + 1),
    };
    int64_t slice = slice_add(&im->slices, &spec);
    uint32_t index;
    if (slice != SLICE_NONE && ring_get(im, drm, name, &index))
        import_fail(im, map64_set(&drm->queued, job_key(&job, true, index), (uint64_t)slice));
}

static void job_run(struct import *im, const struct ftrace_event *event)
{
    struct drm *drm = event->own;
    struct job job = job_of(event);
    uint32_t index;
    struct line *ring = ring_get(im, drm, ftrace_text(event, "name"), &index);
    if (!ring)
        return;
    if (line_push(ring, job) < 0 || map64_set(&drm->running, job_key(&job, false, 0), index) < 0)
        import_fail(im, -ENOMEM);
    else if (line_size(ring) == 1)
        ring_begin(im, drm, event->ts, ring, index);
}

static void job_done(struct import *im, const struct ftrace_event *event)
{
    struct drm *drm = event->own;
    struct job job = job_of(event);
    uint64_t key = job_key(&job, false, 0);
    const uint64_t *index = map64_find(&drm->running, key);
    if (!index)
        return;
    uint32_t number = (uint32_t)*index;
    struct line *ring = &drm->rings.items[number];
    map64_remove(&drm->running, key);
    if (!line_size(ring))
        return;
    line_pop(ring);
    slice_close(&im->slices, event->ts, ring->track);
    if (line_size(ring))
        ring_begin(im, drm, event->ts, ring, number);
}

// Returns the timeline of a fence. NULL: the fence combines other fences and has no timeline and no
// slice; or memory ran out.
static struct line *timeline_get(struct import *im, const struct ftrace_event *event)
{
    struct slice_name name = ftrace_text(event, "timeline");
    uint64_t context = (uint32_t)ftrace_int(event, "context");
    bool is_new;
    struct drm *drm = event->own;
    if (name_is(name, "unbound"))
        return NULL;
    const uint64_t *index =
        import_map_get(im, &drm->by_context, context, drm->timelines.n, &is_new);
    if (index && is_new) {
        struct line made = {.track = line_track(im, "drm_fence", "fence", name, &context)};
        import_fail(im, line_vec_push(&drm->timelines, made));
    }
    return index && !import_failed(im) ? &drm->timelines.items[*index] : NULL;
}

static void fence_begin(struct import *im, int64_t ts, const struct line *timeline)
{
    struct arg arg = arg_uint("fence seqno", line_front(timeline)->number);
    struct slice_spec spec = {
        .ts = ts,
        .track = timeline->track,
        .name = slice_name("fence"),
        .args = &arg,
        .n_args = 1,
    };
    slice_begin(&im->slices, &spec);
}

static void fence_add(struct import *im, const struct ftrace_event *event, struct line *timeline)
{
    struct job fence = {.is_fence = true, .number = (uint32_t)ftrace_int(event, "seqno")};
    import_fail(im, line_push(timeline, fence));
    if (line_size(timeline) == 1)
        fence_begin(im, event->ts, timeline);
}

// Replaces dma_fence_emit, which few drivers record.
static void dma_fence_init(struct import *im, const struct ftrace_event *event)
{
    struct line *timeline = timeline_get(im, event);
    if (timeline && !timeline->has_emit)
        fence_add(im, event, timeline);
}

static void dma_fence_emit(struct import *im, const struct ftrace_event *event)
{
    struct line *timeline = timeline_get(im, event);
    if (!timeline)
        return;
    if (!timeline->has_emit && line_size(timeline)) {
        slice_close(&im->slices, event->ts, timeline->track);
        timeline->first = timeline->jobs.n = 0;
    }
    timeline->has_emit = true;
    fence_add(im, event, timeline);
}

static void dma_fence_signaled(struct import *im, const struct ftrace_event *event)
{
    struct line *timeline = timeline_get(im, event);
    if (!timeline || !line_size(timeline) ||
        (uint32_t)ftrace_int(event, "seqno") < line_front(timeline)->number)
        return;
    line_pop(timeline);
    slice_close(&im->slices, event->ts, timeline->track);
    if (line_size(timeline))
        fence_begin(im, event->ts, timeline);
}

#define VBLANK(a_name)                                                                             \
    FORM_MOMENT, .type = "drm_vblank", .key = "drm_crtc=crtc:u", .track = "vblank-{crtc:u}",       \
                 .name = (a_name), .args = "vblank seqno=seq"

static const struct ftrace_form forms[] = {
    {"drm_vblank_event", VBLANK("signal")},
    {"drm_vblank_event_delivered", VBLANK("deliver")},
    {"dma_fence_wait_start", FORM_BEGIN, .name = "dma_fence_wait",
     .args = "fence context=context, fence seqno=seqno"},
    {"dma_fence_wait_end", FORM_END},
    {"drm_sched_job", FORM_CALL(job_queue)},
    {"drm_run_job", FORM_CALL(job_run)},
    {"drm_sched_process_job", FORM_CALL(job_done)},
    {"drm_sched_job_queue", FORM_CALL(job_queue), .detail = "fence"},
    {"drm_sched_job_run", FORM_CALL(job_run), .detail = "fence"},
    {"drm_sched_job_done", FORM_CALL(job_done), .detail = "fence"},
    {"dma_fence_init", FORM_CALL(dma_fence_init)},
    {"dma_fence_emit", FORM_CALL(dma_fence_emit)},
    {"dma_fence_signaled", FORM_CALL(dma_fence_signaled)},
    {0},
};

const struct ftrace_subject ftrace_drm = {
    .forms = forms,
    .state_size = sizeof(struct drm),
    .n_maps = 3,
    .done = drm_done,
};
