// SPDX-License-Identifier: Apache-2.0
//
// An index on kind and time gives the events of each kind in order, and the code here merges the
// kinds. No sort is needed, and no event of another kind is read. After a conversion without kernel
// events (--no-ftrace), the slices of direct and memcg reclaim are read instead.
//
// The code does not invent a missing end. If another begin of the same thread follows a begin, the
// first begin is dropped. The last begin of a thread lasts to the last event of reclaim, not to the
// end of the trace, because events may end long before the trace (a full buffer). If the kernel
// overwrote events, a begin may be paired with the end of another episode. Then only the number of
// episodes is reported.
#include "converter/verdict/reclaim.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/elements.h"

#define STREAMS_MAX 64
#define NOT_OPEN    INT64_MIN

static const struct event_name {
    const char *name;
    enum work work;
    bool begins;
} event_names[] = {
    {"mm_vmscan_direct_reclaim_begin", WORK_DIRECT, true},
    {"mm_vmscan_direct_reclaim_end", WORK_DIRECT, false},
    {"mm_vmscan_memcg_reclaim_begin", WORK_MEMCG, true},
    {"mm_vmscan_memcg_reclaim_end", WORK_MEMCG, false},
    {"mm_compaction_begin", WORK_COMPACTION, true},
    {"mm_compaction_end", WORK_COMPACTION, false},
    {"mm_vmscan_kswapd_wake", WORK_KSWAPD, true},
    {"mm_vmscan_kswapd_sleep", WORK_KSWAPD, false},
};

// Events of one kind, in order of time.
struct stream {
    const struct event_name *name;
    sqlite3_stmt *row; // owned
    int64_t ts, id, utid;
    bool more;
};

struct reader {
    struct reclaim *reclaim;
    struct subject *subject;
    struct stream streams[STREAMS_MAX];
    size_t n_streams;
    struct map64 open;       // thread and work -> begin
    struct map64 waiter_of;  // process or thread -> index in waiters
    struct map64 process_of; // thread -> process + 1; 0: unknown
    struct map64 background; // threads that no task waits for: kswapd, kcompactd
};

static void out_of_memory(struct reader *reader, int r)
{
    if (r < 0)
        reader->subject->code = SQLITE_NOMEM;
}

// -- threads --

static uint64_t process_find(struct reader *reader, int64_t utid)
{
    const uint64_t *known = map64_find(&reader->process_of, (uint64_t)utid);
    if (known)
        return *known;
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        reader->subject,
        "SELECT t.upid + 1, coalesce(nullif(t.name, ''), p.name) GLOB 'kcompactd*' "
        "OR coalesce(nullif(t.name, ''), p.name) GLOB 'kswapd*' "
        "OR coalesce(nullif(t.name, ''), p.name) = 'khugepaged' "
        "FROM thread t LEFT JOIN process p ON p.upid = t.upid WHERE t.utid = ?2 AND ?1 >= 0");
    sqlite3_bind_int64(row, 2, utid);
    bool found = subject_row(reader->subject, row);
    uint64_t process = found ? (uint64_t)sqlite3_column_int64(row, 0) : 0;
    if (found && sqlite3_column_int(row, 1))
        out_of_memory(reader, map64_set(&reader->background, (uint64_t)utid, 1));
    out_of_memory(reader, map64_set(&reader->process_of, (uint64_t)utid, process));
    return process;
}

static struct waiter *waiter_find(struct reader *reader, int64_t utid)
{
    uint64_t process = process_find(reader, utid);
    if (map64_find(&reader->background, (uint64_t)utid))
        return NULL;
    struct waiter_vec *waiters = &reader->reclaim->waiters;
    uint64_t key = process ? process << 1 : (uint64_t)utid << 1 | 1;
    bool is_new;
    const uint64_t *place = map64_get_or_add(&reader->waiter_of, key, waiters->n, &is_new);
    struct waiter waiter = {.upid = (int64_t)process - 1, .utid = utid};
    if (!place || (is_new && waiter_vec_push(waiters, waiter) < 0)) {
        out_of_memory(reader, -ENOMEM);
        return NULL;
    }
    return &waiters->items[*place];
}

// -- spans --

static void work_take(struct reader *reader, enum work work, int64_t ts, int64_t end)
{
    struct reclaim *reclaim = reader->reclaim;
    reclaim->work[work].n++;
    sum_add(&reclaim->work[work].dur, end - ts);
    out_of_memory(reader, intervals_add(&reclaim->any, ts, end, PRESSURE_GAP));
}

static void wait_take(struct reader *reader, enum work work, int64_t utid, int64_t ts, int64_t end)
{
    struct reclaim *reclaim = reader->reclaim;
    struct waiter *waiter = waiter_find(reader, utid);
    if (!waiter)
        return;
    waiter->n[work]++;
    sum_add(&waiter->dur, end - ts);
    if (work != WORK_COMPACTION)
        sum_add(&waiter->reclaim, end - ts);
    if (end - ts >= waiter->longest) {
        waiter->longest = end - ts;
        waiter->longest_ts = ts;
        waiter->longest_work = work;
        waiter->utid = utid;
    }
    if (work == WORK_COMPACTION)
        out_of_memory(reader, intervals_push(&reclaim->compactions, (struct interval){ts, end}));
    else
        work_take(reader, work, ts, end);
}

static void span_take(struct reader *reader, enum work work, int64_t utid, int64_t ts, int64_t end)
{
    struct reclaim *reclaim = reader->reclaim;
    if (work != WORK_KSWAPD) {
        wait_take(reader, work, utid, ts, end);
        return;
    }
    work_take(reader, work, ts, end);
    out_of_memory(reader, intervals_add(&reclaim->kswapd, ts, end, 0));
}

// Handles an event. kswapd has an event for each wake-up, but an event for sleep only when all work
// is done.
static void event_take(struct reader *reader, const struct stream *stream)
{
    const struct event_name *name = stream->name;
    uint64_t key = (uint64_t)stream->utid << 2 | (uint64_t)name->work;
    bool is_new;
    uint64_t *since = map64_get_or_add(&reader->open, key, (uint64_t)NOT_OPEN, &is_new);
    if (!since) {
        out_of_memory(reader, -ENOMEM);
        return;
    }
    int64_t ts = (int64_t)*since;
    if (name->work == WORK_KSWAPD)
        out_of_memory(reader, map64_set(&reader->background, (uint64_t)stream->utid, 1));
    if (!name->begins) {
        *since = (uint64_t)NOT_OPEN;
        if (ts != NOT_OPEN)
            span_take(reader, name->work, stream->utid, ts, stream->ts);
    } else if (ts == NOT_OPEN || name->work != WORK_KSWAPD) {
        *since = (uint64_t)stream->ts;
    }
    reader->reclaim->last_ts = stream->ts;
}

static void open_spans_end(struct reader *reader)
{
    CLEANUP(freep) struct map64_slot *open = map64_sorted(&reader->open);
    if (!open)
        out_of_memory(reader, -ENOMEM);
    for (size_t i = 0; open && i < reader->open.n; i++)
        if ((int64_t)open[i].value != NOT_OPEN)
            span_take(reader, (enum work)(open[i].key & 3), (int64_t)(open[i].key >> 2),
                      (int64_t)open[i].value, reader->reclaim->last_ts);
}

// -- events --

static void stream_next(struct reader *reader, struct stream *stream)
{
    stream->more = subject_row(reader->subject, stream->row);
    if (!stream->more)
        return;
    stream->ts = subject_time(stream->row, 0);
    stream->id = sqlite3_column_int64(stream->row, 1);
    stream->utid = sqlite3_column_int64(stream->row, 2);
}

static void stream_open(struct reader *reader, const struct event_name *name, int64_t kind)
{
    if (reader->n_streams == STREAMS_MAX)
        return;
    struct stream *stream = &reader->streams[reader->n_streams];
    // ucpu: machine * 4096 + cpu
    stream->row =
        subject_ask(reader->subject, "SELECT ts, id, utid FROM _arg_set WHERE kind_id = ?2 "
                                     "AND ts IS NOT NULL AND utid IS NOT NULL "
                                     "AND ucpu / 4096 " OF_TRACE " ORDER BY ts, id");
    if (!stream->row)
        return;
    sqlite3_bind_int64(stream->row, 2, kind);
    stream->name = name;
    reader->n_streams++;
    stream_next(reader, stream);
    reader->reclaim->work[name->work].recorded |= stream->more;
}

// Opens the streams. All events of a kind belong to the trace of the first event.
static void streams_open(struct reader *reader)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        reader->subject,
        "SELECT k.id, k.name FROM _arg_kind k WHERE (k.name GLOB 'mm_vmscan_*' OR k.name GLOB "
        "'mm_compaction_*') AND (SELECT e.ucpu / 4096 FROM _arg_set e WHERE e.kind_id = k.id "
        "AND e.ts IS NOT NULL LIMIT 1) " OF_TRACE);
    while (subject_row(reader->subject, row)) {
        const char *name = (const char *)sqlite3_column_text(row, 1);
        for (size_t i = 0; name && i < ELEMENTS(event_names); i++)
            if (str_eq(name, event_names[i].name)) {
                stream_open(reader, &event_names[i], sqlite3_column_int64(row, 0));
            }
    }
}

// Returns the stream with the earliest event, or NULL at the end.
static struct stream *stream_first(struct reader *reader)
{
    struct stream *first = NULL;
    for (size_t i = 0; i < reader->n_streams; i++) {
        struct stream *stream = &reader->streams[i];
        if (stream->more && (!first || stream->ts < first->ts ||
                             (stream->ts == first->ts && stream->id < first->id)))
            first = stream;
    }
    return first;
}

static void events_read(struct reader *reader)
{
    struct stream *stream;
    while ((stream = stream_first(reader)) && reader->subject->code == SQLITE_OK) {
        event_take(reader, stream);
        stream_next(reader, stream);
    }
    open_spans_end(reader);
}

static void slices_read(struct reader *reader)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        reader->subject, "SELECT s.ts, max(s.dur, 0), t.utid, s.name = 'mm_vmscan_memcg_reclaim' "
                         "FROM slice s JOIN thread_track t ON t.id = s.track_id "
                         "WHERE s.name IN ('mm_vmscan_direct_reclaim', 'mm_vmscan_memcg_reclaim') "
                         "AND t.machine_id " OF_TRACE " AND " EVENTS_LEFT_OUT);
    while (subject_row(reader->subject, row)) {
        int64_t ts = subject_time(row, 0), end = time_bounded(ts + subject_time(row, 1));
        enum work work = sqlite3_column_int(row, 3) ? WORK_MEMCG : WORK_DIRECT;
        reader->reclaim->work[work].recorded = true;
        wait_take(reader, work, sqlite3_column_int64(row, 2), ts, end);
    }
}

// Reads, for each task, the sums of events that mmtrace could not keep. The single events are
// unknown, but memory was short during the whole time of a sum.
static void not_kept_read(struct reader *reader)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        reader->subject,
        "SELECT s.ts, max(s.dur, 0), substr(a.key, 7), max(a.int_value, 0) FROM _track p "
        "JOIN _track t ON t.parent_id = p.id CROSS JOIN slice s ON s.track_id = t.id "
        "CROSS JOIN args a ON a.arg_set_id = s.arg_set_id WHERE p.name = '" NOT_KEPT_TRACK "' "
        "AND a.key GLOB 'debug.mm_*' AND p.machine_id " OF_TRACE);
    while (subject_row(reader->subject, row)) {
        const char *name = (const char *)sqlite3_column_text(row, 2);
        int64_t ts = subject_time(row, 0), end = time_bounded(ts + subject_time(row, 1));
        for (size_t i = 0; name && i < ELEMENTS(event_names); i++) {
            const struct event_name *event = &event_names[i];
            if (!event->begins || !str_eq(name, event->name))
                continue;
            struct work_sum *sum = &reader->reclaim->work[event->work];
            sum_add(&sum->n_not_kept, subject_time(row, 3));
            sum->n_not_kept = time_bounded(sum->n_not_kept);
            out_of_memory(reader, intervals_add(&reader->reclaim->any, ts, end, PRESSURE_GAP));
        }
    }
}

// Adds compactions next to reclaim to the shortage. Other compaction was a demand for large blocks.
static void compactions_take(struct reader *reader)
{
    struct reclaim *reclaim = reader->reclaim;
    struct intervals *compactions = &reclaim->compactions;
    bool alone = !reclaim->any.n;
    size_t n = 0;
    vec_foreach(compactions, one)
        if (alone || intervals_are_near(&reclaim->any, one->ts, one->end, PRESSURE_GAP))
            compactions->items[n++] = *one;
    compactions->n = n;
    vec_foreach(compactions, one)
        work_take(reader, WORK_COMPACTION, one->ts, one->end);
}

// -- the whole --

static int by_dur(const void *left, const void *right)
{
    const struct waiter *a = left, *b = right;
    if (a->dur != b->dur)
        return a->dur > b->dur ? -1 : 1;
    return (a->utid > b->utid) - (a->utid < b->utid);
}

static void reader_done(struct reader *reader)
{
    for (size_t i = 0; i < reader->n_streams; i++)
        subject_end(&reader->streams[i].row);
    map64_done(&reader->open);
    map64_done(&reader->waiter_of);
    map64_done(&reader->process_of);
    map64_done(&reader->background);
}

void reclaim_read(struct reclaim *reclaim, struct subject *subject)
{
    CLEANUP(reader_done) struct reader reader = {.reclaim = reclaim, .subject = subject};
    for (size_t i = 0; i < ELEMENTS(event_names); i++) {
        const struct event_name *name = &event_names[i];
        reclaim->work[name->work].recorded |= subject_was_to_record(
            subject, name->work == WORK_COMPACTION ? "compaction" : "vmscan", name->name);
    }
    int64_t has_gaps = 0;
    subject_number(subject,
                   "SELECT count(*) FROM stats WHERE trace_id = ?1 AND value > 0 AND name IN "
                   "('ftrace_cpu_has_data_loss', 'ftrace_cpu_dropped_events_delta')",
                   &has_gaps);
    int64_t is_partial = 0;
    subject_number(subject,
                   "SELECT count(*) FROM stats WHERE trace_id = ?1 AND value > 0 AND name IN "
                   "('traced_buf_chunks_discarded', 'traced_buf_trace_writer_packet_loss')",
                   &is_partial);
    reclaim->has_gaps = has_gaps > 0;
    reclaim->is_partial = is_partial > 0 || has_gaps > 0;
    streams_open(&reader);
    if (reader.n_streams)
        events_read(&reader);
    else
        slices_read(&reader);
    not_kept_read(&reader);
    compactions_take(&reader);
    if (reclaim->waiters.n)
        qsort(reclaim->waiters.items, reclaim->waiters.n, sizeof(struct waiter), by_dur);
}

void reclaim_done(struct reclaim *reclaim)
{
    waiter_vec_done(&reclaim->waiters);
    intervals_done(&reclaim->compactions);
    intervals_done(&reclaim->any);
    intervals_done(&reclaim->kswapd);
}
