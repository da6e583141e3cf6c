// SPDX-License-Identifier: Apache-2.0
//
// Packets are read back only when they are lost: with a large enough buffer this costs nothing. The
// table has a fixed size; further tasks are counted together.
//
// The kept beginning may end in the middle of a task's activity: its mm_vmscan_direct_reclaim_begin
// is kept, its end is dropped. A reader would take the first end after the gap: a reclaim of
// minutes. Therefore the end events before any other dropped event of their task are kept. Packets
// come by CPU, not in the order of time, and a task may change its CPU: the times decide. An end
// after the gap whose begin is dropped does no harm: readers skip it.
//
// The sums are track events, which every Perfetto tool shows: for each task a slice from the first
// to the last of its lost events, with their numbers as arguments.
#include "producer/sources/ftrace/lost_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/map.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/sources/ftrace/bundle_writer.h"
#include "protos/fields.h"

#define N_TASKS        256 // distinct tasks; a power of two
#define N_KINDS        16  // kinds of events; others are counted together
#define N_ENDS         4   // nesting depth of activities
#define END_BYTES      96  // of a kept event
#define END_EXTRA      8u  // in addition to its bytes
#define TRACK_NAME_MAX 64
#define OTHERS         (-1) // the pid of all tasks that are not in the table
#define GROUP          (-2) // of the parent track; 0 is the idle task
#define TRACK_ROOM     160
#define SUM_ROOM       160 // without the numbers of events
#define PACKET_EXTRA   80  // added to a packet by writer and buffer
#define PART_FOR_SUMS  4   // the sums take at most 1 / 4 of the buffer

struct end {
    uint64_t time;
    uint32_t cpu;
    bool written;
    uint8_t kind; // < N_KINDS
    uint16_t size;
    uint8_t bytes[END_BYTES]; // a FtraceEvent
};

struct lost_task {
    int32_t pid;
    bool used;
    bool is_folded; // its events count for `others`
    uint8_t n_ends;
    uint64_t first_begin; // time of the first other event: later ends belong to dropped begins
    uint64_t first, last; // boot time
    uint64_t n, counts[N_KINDS + 1];
    struct end ends[N_ENDS];
};

struct kind {
    uint32_t field; // of FtraceEvent
    const char *name;
    bool ends;
};

struct lost_events {
    struct kind kinds[N_KINDS];
    size_t n_kinds;
    uint32_t n_cpus; // highest CPU number plus one
    size_t n_tasks;
    struct lost_task others;
    struct lost_task tasks[N_TASKS];
};

struct event {
    uint64_t time;
    int32_t pid;
    uint32_t field;
    uint32_t cpu;
};

static bool is_end(const char *name)
{
    return str_ends_with(name, "_end") || str_ends_with(name, "_sleep");
}

struct lost_events *lost_events_new(const struct event_set *events)
{
    struct lost_events *lost = memory_calloc(1, sizeof(*lost));
    if (!lost)
        return NULL;
    lost->others.pid = OTHERS;
    for (size_t i = 0; i < events->chosen.n && lost->n_kinds < N_KINDS; i++) {
        const struct chosen_event *chosen = &events->chosen.items[i];
        const struct event_plan *plan =
            chosen->id < events->n_plans ? events->plans[chosen->id] : NULL;
        if (plan)
            lost->kinds[lost->n_kinds++] = (struct kind){
                .field = plan->field_number,
                .name = chosen->name,
                .ends = is_end(chosen->name),
            };
    }
    return lost;
}

struct lost_events *lost_events_free(struct lost_events *lost)
{
    free(lost);
    return NULL;
}

static struct lost_task *task_of(struct lost_events *lost, int32_t pid)
{
    for (uint64_t i = hash_u64((uint64_t)pid);; i++) {
        struct lost_task *task = &lost->tasks[i % N_TASKS];
        if (task->used && task->pid == pid)
            return task->is_folded ? &lost->others : task;
        if (task->used)
            continue;
        if (lost->n_tasks == N_TASKS - 1)
            return &lost->others;
        lost->n_tasks++;
        task->used = true;
        task->pid = pid;
        task->first_begin = UINT64_MAX;
        return task;
    }
}

static size_t kind_of(const struct lost_events *lost, uint32_t field)
{
    size_t i = 0;
    while (i < lost->n_kinds && lost->kinds[i].field != field)
        i++;
    return i < lost->n_kinds ? i : N_KINDS;
}

static void keep_end(struct lost_task *task, const struct event *event, size_t kind,
                     const struct wire_field *bytes)
{
    struct end *end = &task->ends[task->n_ends];
    if (bytes->size > sizeof(end->bytes) || event->time > task->first_begin)
        return;
    if (task->n_ends < N_ENDS) {
        task->n_ends++;
    } else {
        end = task->ends;
        for (size_t i = 1; i < N_ENDS; i++)
            end = task->ends[i].time > end->time ? &task->ends[i] : end;
        if (event->time > end->time)
            return;
    }
    *end = (struct end){
        .time = event->time,
        .cpu = event->cpu,
        .kind = (uint8_t)kind,
        .size = (uint16_t)bytes->size,
    };
    memcpy(end->bytes, bytes->data, bytes->size);
}

static bool is_due(const struct lost_task *task, const struct end *end, uint32_t cpu)
{
    return !end->written && end->cpu == cpu && end->time < task->first_begin;
}

static void add_event(struct lost_events *lost, const struct event *event,
                      const struct wire_field *bytes)
{
    struct lost_task *task = task_of(lost, event->pid);
    size_t kind = kind_of(lost, event->field);
    if (kind < lost->n_kinds && lost->kinds[kind].ends && task->used)
        keep_end(task, event, kind, bytes);
    else if (event->time < task->first_begin)
        task->first_begin = event->time;
    task->n++;
    task->counts[kind]++;
    // The packets of several processors are not in the order of time.
    if (!task->first || event->time < task->first)
        task->first = event->time;
    if (event->time > task->last)
        task->last = event->time;
}

static void read_event(struct lost_events *lost, uint32_t cpu, const struct wire_field *bytes)
{
    struct event event = {.cpu = cpu};
    struct wire_reader reader = wire_sub(bytes);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_FtraceEvent_timestamp)
            event.time = field.value;
        else if (field.number == PB_FtraceEvent_pid)
            event.pid = (int32_t)field.value;
        else
            event.field = field.number;
    }
    add_event(lost, &event, bytes);
}

static void read_bundle(struct lost_events *lost, const struct wire_field *bundle)
{
    struct wire_reader reader = wire_sub(bundle);
    struct wire_field field;
    uint32_t cpu = 0; // precedes the events
    wire_foreach(&reader, &field) {
        if (field.number == PB_FtraceEventBundle_cpu)
            cpu = (uint32_t)field.value;
        else if (field.number == PB_FtraceEventBundle_event && field.type == WIRE_BYTES)
            read_event(lost, cpu, &field);
    }
    if (cpu >= lost->n_cpus)
        lost->n_cpus = cpu + 1;
}

void lost_events_add(struct lost_events *lost, const uint8_t *packet, size_t size)
{
    struct wire_reader reader = wire_reader_over(packet, size);
    struct wire_field field;
    wire_foreach(&reader, &field)
        if (field.number == PB_TracePacket_ftrace_events && field.type == WIRE_BYTES)
            read_bundle(lost, &field);
}

// -- ends that readers need --

static size_t ends_bytes(const struct lost_events *lost, uint32_t cpu)
{
    size_t bytes = 0;
    for (size_t i = 0; i < N_TASKS; i++)
        for (size_t e = 0; e < lost->tasks[i].n_ends; e++)
            if (is_due(&lost->tasks[i], &lost->tasks[i].ends[e], cpu))
                bytes += lost->tasks[i].ends[e].size + END_EXTRA;
    return bytes;
}

// An end that is written again is not lost, so the sums leave it out.
static void mark_written(struct lost_task *task, struct end *end)
{
    end->written = true;
    task->n--;
    task->counts[end->kind]--;
}

static uint64_t write_ends_of(struct lost_events *lost, uint32_t cpu, struct packet_writer *writer)
{
    size_t room = ends_bytes(lost, cpu);
    struct wire_writer *w =
        room ? packet_writer_begin_message(writer, 0, room + 32, PB_TracePacket_ftrace_events)
             : NULL;
    if (!w)
        return 0;
    uint64_t n = 0;
    size_t left = room; // packet_writer_begin() may have pushed out further ends
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    for (size_t i = 0; i < N_TASKS; i++)
        for (size_t e = 0; e < lost->tasks[i].n_ends; e++) {
            struct end *end = &lost->tasks[i].ends[e];
            if (!is_due(&lost->tasks[i], end, cpu) || end->size + END_EXTRA > left)
                continue;
            left -= end->size + END_EXTRA;
            wire_bytes(w, PB_FtraceEventBundle_event, end->bytes, end->size);
            mark_written(&lost->tasks[i], end);
            n++;
        }
    return packet_writer_end_retained(writer, PACKET_RETAIN_APPEND, FTRACE_KEY_ENDS) ? n : 0;
}

uint64_t lost_events_write_ends(struct lost_events *lost, struct packet_writer *writer)
{
    uint64_t n = 0;
    for (uint32_t cpu = 0; cpu < lost->n_cpus; cpu++)
        n += write_ends_of(lost, cpu, writer);
    return n;
}

// -- sums --

static uint64_t track_uuid(const struct packet_writer *writer, int32_t pid)
{
    const uint64_t what[] = {0x6c6f73742065762e, // "lost ev."
                             writer->sequence_id, (uint64_t)pid};
    uint64_t uuid = hash_bytes(what, sizeof(what));
    return uuid ? uuid : 1;
}

// `parent` 0: none.
static void write_track(struct packet_writer *writer, uint64_t uuid, uint64_t parent,
                        const char *name)
{
    struct wire_writer *w =
        packet_writer_begin_message(writer, 0, TRACK_ROOM, PB_TracePacket_track_descriptor);
    if (!w)
        return;
    wire_uint(w, PB_TrackDescriptor_uuid, uuid);
    if (parent)
        wire_uint(w, PB_TrackDescriptor_parent_uuid, parent);
    wire_string(w, PB_TrackDescriptor_name, name);
    packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, uuid);
}

static void write_argument(struct wire_writer *w, const char *name, int64_t value)
{
    size_t mark = wire_begin(w, PB_TrackEvent_debug_annotations);
    wire_string(w, PB_DebugAnnotation_name, name);
    wire_int(w, PB_DebugAnnotation_int_value, value);
    wire_end(w, mark);
}

static struct wire_writer *begin_slice(struct packet_writer *writer, uint64_t time, uint32_t type,
                                       uint64_t track, size_t room)
{
    struct wire_writer *w =
        packet_writer_begin_message(writer, (nsec_t)time, room, PB_TracePacket_track_event);
    if (!w)
        return NULL;
    wire_uint(w, PB_TrackEvent_type, type);
    wire_uint(w, PB_TrackEvent_track_uuid, track);
    return w;
}

static size_t sum_room(const struct lost_events *lost, const struct lost_task *task)
{
    size_t room = SUM_ROOM;
    for (size_t i = 0; i <= N_KINDS; i++)
        if (task->counts[i])
            room += 32 + (i < lost->n_kinds ? strlen(lost->kinds[i].name) : 0);
    return room;
}

static bool has_sum(const struct lost_task *task)
{
    return task->used && !task->is_folded;
}

static size_t sums_bytes(const struct lost_events *lost)
{
    size_t bytes = 2 * (TRACK_ROOM + PACKET_EXTRA) + sum_room(lost, &lost->others);
    for (size_t i = 0; i < N_TASKS; i++)
        if (has_sum(&lost->tasks[i]))
            bytes += TRACK_ROOM + sum_room(lost, &lost->tasks[i]) + 64 + 3 * PACKET_EXTRA;
    return bytes;
}

static void write_sum(const struct lost_events *lost, const struct lost_task *task, uint64_t parent,
                      struct packet_writer *writer)
{
    uint64_t uuid = track_uuid(writer, task->pid);
    char name[TRACK_NAME_MAX] = "other tasks";
    if (task->pid != OTHERS)
        snprintf(name, sizeof(name), "task %" PRId32, task->pid);
    write_track(writer, uuid, parent, name);
    struct wire_writer *w =
        begin_slice(writer, task->first, PB_TYPE_SLICE_BEGIN, uuid, sum_room(lost, task));
    if (!w)
        return;
    snprintf(name, sizeof(name), "%" PRIu64 " events not kept", task->n);
    wire_string(w, PB_TrackEvent_name, name);
    if (task->pid != OTHERS)
        write_argument(w, "tid", task->pid);
    write_argument(w, "events", (int64_t)task->n);
    for (size_t i = 0; i < lost->n_kinds; i++)
        if (task->counts[i])
            write_argument(w, lost->kinds[i].name, (int64_t)task->counts[i]);
    if (task->counts[N_KINDS])
        write_argument(w, "other events", (int64_t)task->counts[N_KINDS]);
    packet_writer_end(writer);
    if (begin_slice(writer, task->last, PB_TYPE_SLICE_END, uuid, 64))
        packet_writer_end(writer);
}

static struct lost_task *smallest(struct lost_events *lost)
{
    struct lost_task *found = NULL;
    for (size_t i = 0; i < N_TASKS; i++)
        if (has_sum(&lost->tasks[i]) && (!found || lost->tasks[i].n < found->n))
            found = &lost->tasks[i];
    return found;
}

// Moves the task with the fewest events into `others`.
static bool fold(struct lost_events *lost)
{
    struct lost_task *task = smallest(lost), *to = &lost->others;
    if (!task)
        return false;
    to->n += task->n;
    for (size_t k = 0; k <= N_KINDS; k++)
        to->counts[k] += task->counts[k];
    to->first = !to->first || task->first < to->first ? task->first : to->first;
    to->last = task->last > to->last ? task->last : to->last;
    task->is_folded = true; // and stays in the table: the search for other tasks passes it
    return true;
}

// Makes room for the sums before they are written: the packets that the buffer drops for this room
// must be in the sums.
static void make_room(struct lost_events *lost, struct packet_buffer *buffer)
{
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(buffer, &stats);
    size_t most = (size_t)(stats.size_bytes / PART_FOR_SUMS), room;
    size_t bytes = sums_bytes(lost);
    while (bytes > most && fold(lost))
        bytes = sums_bytes(lost);
    if (packet_buffer_reserve(buffer, bytes, bytes, &room))
        packet_buffer_cancel(buffer);
}

// Empties the table. Later losses need room in it, but are not written.
static void forget_tasks(struct lost_events *lost)
{
    memset(lost->tasks, 0, sizeof(lost->tasks));
    lost->others = (struct lost_task){.pid = OTHERS};
    lost->n_tasks = 0;
}

void lost_events_write_sums(struct lost_events *lost, struct packet_writer *writer)
{
    uint64_t parent = track_uuid(writer, GROUP);
    if (!lost->n_tasks)
        return;
    make_room(lost, writer->buffer);
    write_track(writer, parent, 0, "Events not kept");
    for (size_t i = 0; i < N_TASKS; i++)
        if (has_sum(&lost->tasks[i]) && lost->tasks[i].n > 0)
            write_sum(lost, &lost->tasks[i], parent, writer);
    if (lost->others.n)
        write_sum(lost, &lost->others, parent, writer);
    forget_tasks(lost);
}
