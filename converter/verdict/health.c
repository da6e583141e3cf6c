// SPDX-License-Identifier: Apache-2.0
//
// There are many statistics, and each is a detail of the recorder or of an importer. A user needs
// to know the wrong answers, and a remedy. Therefore one line groups several statistics. A
// statistic that the table below lacks gets a line if its severity demands a line.
//
// Users ignore a line that every trace has. Therefore statistics of sound recordings are left out:
// packets that a ring buffer overwrote, and lines of trace_marker in an unknown format.
#include "converter/verdict/health.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/nsec.h"
#include "common/str.h"
#include "converter/verdict/subject.h"

#define NAMED_MAX 3
#define NAME_SIZE 64 // an untrusted database may have any name here

// Meanings of statistics. The first matching row counts. A row with `any_severity` also matches the
// severity info.
static const struct stat_meaning {
    const char *glob;
    enum health_kind kind;
    bool any_severity;
} meanings[] = {
    {"systrace_parse_failure", N_HEALTH, true}, // N_HEALTH: nothing is wrong
    {"mmsql_recording_cut", HEALTH_CUT, true},
    {"mmsql_truncated_at", HEALTH_DAMAGE, true},
    {"mmsql_packets_damaged", HEALTH_DAMAGE, true},
    {"mmsql_compressed_damaged", HEALTH_DAMAGE, true},
    {"mmsql_compression_unknown", HEALTH_DAMAGE, true},
    {"ftrace_bundle_tokenizer_errors", HEALTH_DAMAGE, true},
    {"ftrace_cpu_has_data_loss", HEALTH_EVENTS, true},
    {"ftrace_cpu_dropped_events_delta", HEALTH_EVENTS, true},
    {"ftrace_cpu_commit_overrun_delta", HEALTH_EVENTS, true},
    {"ftrace_kprobe_misses_delta", HEALTH_EVENTS, true},
    {"traced_buf_chunks_discarded", HEALTH_BUFFER, true},
    {"traced_buf_trace_writer_packet_loss", HEALTH_BUFFER, true},
    {"traced_buf_patches_failed", HEALTH_PACKETS, true},
    {"traced_buf_abi_violations", HEALTH_PACKETS, true},
    {"previous_packet_dropped", HEALTH_PACKETS, true},
    {"traced_buf_sequence_packet_loss", N_HEALTH, true}, // previous_packet_dropped counts all
    {"traced_buf_data_loss_*", N_HEALTH, true},          // parts of that number, by cause
    {"traced_buf_incremental_sequences_dropped", HEALTH_PACKETS, true},
    {"traced_final_flush_failed", HEALTH_END, true},
    {"traced_flushes_failed", HEALTH_END, true},
    {"heapprofd_*", HEALTH_HEAP, false},
    {"mmsql_heap_*", HEALTH_HEAP, false},
    {"perf_samples_skipped*", HEALTH_HEAP, false},
    {"perf_cpu_lost_records", HEALTH_HEAP, false},
    {"clock_sync_failure_*", HEALTH_CLOCK, true},
    {"trace_sorter_negative_timestamp_dropped", HEALTH_CLOCK, true},
    {"invalid_clock_snapshots", HEALTH_CLOCK, true},
};

struct tally {
    int64_t n;           // rows of stats, for example one for each processor
    int64_t sum;         // sum of their values
    struct strbuf names; // "name (12), other (1)": the first NAMED_MAX names
    int64_t n_names;
};

struct health {
    struct subject subject;
    struct tally tallies[N_HEALTH];
    int64_t events_lost; // 0: not known
    int64_t overwritten; // chunks that ring buffers overwrote
    int64_t discarded;   // chunks that full buffers refused; packet_loss counts them, too
    int64_t truncated_at;
    struct health_line_vec *lines; // borrowed
    bool failed;
};

static void health_done(struct health *health)
{
    for (enum health_kind kind = 0; kind < N_HEALTH; kind++)
        strbuf_done(&health->tallies[kind].names);
}

// -- gathering --

static enum health_kind kind_of(const char *name, const char *severity)
{
    bool is_loss = str_eq(severity, "data_loss"), is_error = str_eq(severity, "error");
    for (size_t i = 0; i < ELEMENTS(meanings); i++)
        if (sqlite3_strglob(meanings[i].glob, name) == 0)
            return meanings[i].any_severity || is_loss || is_error ? meanings[i].kind : N_HEALTH;
    return is_loss ? HEALTH_OTHER : is_error ? HEALTH_IMPORT : N_HEALTH;
}

static void stat_take(struct health *health, const char *name, const char *severity, int64_t value)
{
    enum health_kind kind = kind_of(name, severity);
    if (str_eq(name, "ftrace_cpu_overrun_delta") || str_eq(name, "ftrace_cpu_dropped_events_delta"))
        sum_add(&health->events_lost, value);
    if (str_eq(name, "traced_buf_chunks_overwritten"))
        sum_add(&health->overwritten, value);
    if (str_eq(name, "traced_buf_chunks_discarded"))
        sum_add(&health->discarded, value);
    if (str_eq(name, "mmsql_truncated_at"))
        health->truncated_at = value;
    if (kind == N_HEALTH)
        return;
    struct tally *tally = &health->tallies[kind];
    tally->n++;
    sum_add(&tally->sum, value);
    char printable[NAME_SIZE];
    if (tally->n_names++ < NAMED_MAX)
        strbuf_addf(&tally->names, "%s%s (%" PRId64 ")", tally->names.size ? ", " : "",
                    str_printable(printable, sizeof(printable), name, strlen(name)), value);
}

// Reads the statistics of the trace. A statistic without a trace counts for the first trace of the
// database.
static void stats_take(struct health *health)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row =
        subject_ask(&health->subject, "SELECT name, severity, value FROM stats WHERE value > 0 AND "
                                      "coalesce(trace_id, (SELECT min(id) FROM trace)) = ?1");
    while (subject_row(&health->subject, row)) {
        const char *name = (const char *)sqlite3_column_text(row, 0);
        const char *severity = (const char *)sqlite3_column_text(row, 1);
        if (name && severity)
            stat_take(health, name, severity, sqlite3_column_int64(row, 2));
    }
}

// -- lines --

static void line_add(struct health *health, enum health_kind kind, struct strbuf *what,
                     const char *hint)
{
    struct health_line line = {
        .kind = kind,
        .trace_id = health->subject.trace_id,
        .what = strbuf_steal(what),
        .hint = strdup(hint),
    };
    if (line.what && line.hint && health_line_vec_push(health->lines, line) == 0)
        return;
    free(line.what);
    free(line.hint);
    health->failed = true;
}

static void damage_tell(struct health *health, struct strbuf *text)
{
    if (health->truncated_at)
        strbuf_addf(text,
                    "the trace ends or breaks at offset %" PRId64
                    ", in the middle of a packet: what came after is missing",
                    health->truncated_at);
    else
        strbuf_addf(text, "the trace is damaged: parts of it could not be read (%s)",
                    health->tallies[HEALTH_DAMAGE].names.text);
}

static void events_tell(struct health *health, struct strbuf *text)
{
    if (health->events_lost) {
        text_times(text, health->events_lost, "kernel event was", "kernel events were");
        strbuf_add_str(text, " lost");
    } else {
        strbuf_add_str(text, "kernel events were lost");
    }
    strbuf_add_str(text, " before they could be read: counts and sums of events are too low, and "
                         "spans may lack their end");
}

static void buffer_tell(struct health *health, struct strbuf *text)
{
    struct subject *subject = &health->subject;
    int64_t stopped, events = 0;
    int64_t others = health->tallies[HEALTH_BUFFER].sum - health->discarded;
    text_times(text, others > health->discarded ? others : health->discarded, "packet", "packets");
    // mmtrace records, for each task, the sums of events that it could not keep.
    if (subject_number(subject,
                       "SELECT sum(a.int_value) FROM _track p JOIN _track t ON t.parent_id = p.id "
                       "CROSS JOIN slice s ON s.track_id = t.id CROSS JOIN args a ON "
                       "a.arg_set_id = s.arg_set_id WHERE p.name = '" NOT_KEPT_TRACK "' AND "
                       "a.key = 'debug.events' AND p.machine_id " OF_TRACE,
                       &events) &&
        events > 0) {
        strbuf_add_str(text, " with ");
        text_times(text, events, "kernel event", "kernel events");
    }
    strbuf_add_str(text, " did not fit into a full buffer: what they held is missing");
    if (subject_number(subject,
                       "SELECT int_value FROM metadata WHERE name = 'tracing_disabled_ns' "
                       "AND coalesce(trace_id, ?1) = ?1",
                       &stopped) &&
        (stopped = time_bounded(stopped)) - subject->end > 2 * NSEC_PER_SEC) {
        text_tell(text, subject, ", and the data ends at %S of %S", subject->end, stopped);
    }
}

static void packets_tell(struct health *health, struct strbuf *text)
{
    text_times(text, health->tallies[HEALTH_PACKETS].sum, "gap", "gaps");
    strbuf_add_str(text, " between packets of a source: what was in between is missing");
}

static void clock_tell(struct health *health, struct strbuf *text)
{
    text_times(text, health->tallies[HEALTH_CLOCK].sum, "time stamp", "time stamps");
    strbuf_addf(text,
                " cannot be brought onto the clock of the trace (%s): their rows are left out",
                health->tallies[HEALTH_CLOCK].names.text);
}

// `tell` makes the text of a line. If `tell` is NULL, the text is `before`. If there is an `after`,
// the names of the statistics and `after` follow.
static const struct {
    void (*tell)(struct health *health, struct strbuf *text);
    const char *before, *after, *hint;
} texts[N_HEALTH] = {
    [HEALTH_CUT] = {.before = "the recording was cut before its end: the trace has what was "
                              "written until then",
                    .hint = "the log of the recorder, or of the kernel, may say why"},
    [HEALTH_DAMAGE] = {damage_tell, .hint = "copy the file again if it is a copy"},
    [HEALTH_EVENTS] = {events_tell, .hint = "raise buffer_size_kb in ftrace_config"},
    [HEALTH_BUFFER] = {buffer_tell, .hint = "raise size_kb of that buffer, or use RING_BUFFER"},
    [HEALTH_PACKETS] = {packets_tell, .hint = "raise size_kb of the buffers"},
    [HEALTH_END] = {.before = "a source did not hand over its last data in time: the end of the "
                              "recording may be missing",
                    .hint = "raise flush_timeout_ms"},
    [HEALTH_HEAP] = {.before = "profiles lack samples (",
                     .after = "): their sizes and counts are not exact",
                     .hint = "sample less often, or give the profile a larger buffer"},
    [HEALTH_CLOCK] = {clock_tell, .hint = "record snapshots of the clocks, see stats"},
    [HEALTH_OTHER] = {.before = "data was lost: ",
                      .after = "; rows are missing",
                      .hint = "see the table stats"},
    [HEALTH_IMPORT] = {.before = "parts of the trace could not be imported: ",
                       .after = "; rows are missing",
                       .hint = "see the table stats"},
};

static void names_tell(const struct tally *tally, enum health_kind kind, struct strbuf *text)
{
    strbuf_add_str(text, texts[kind].before);
    if (!texts[kind].after)
        return;
    strbuf_add(text, tally->names.text, tally->names.size);
    if (tally->n_names > NAMED_MAX && kind != HEALTH_HEAP)
        strbuf_addf(text, " and %" PRId64 " more", tally->n_names - NAMED_MAX);
    strbuf_add_str(text, texts[kind].after);
}

static void kind_tell(struct health *health, enum health_kind kind)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (!health->tallies[kind].n)
        return;
    // A ring buffer that wrapped begins within the data of its sources, so gaps are not a loss.
    if (kind == HEALTH_PACKETS && health->overwritten)
        return;
    if (texts[kind].tell)
        texts[kind].tell(health, &text);
    else
        names_tell(&health->tallies[kind], kind, &text);
    line_add(health, kind, &text, texts[kind].hint);
}

int health_read(struct sqlite3 *handle, int64_t trace_id, struct health_line_vec *ret,
                struct err *err)
{
    CLEANUP(health_done)
    struct health health = {.subject = {.db = handle, .trace_id = trace_id}, .lines = ret};
    subject_number(&health.subject, "SELECT recorded_ts FROM trace WHERE id = ?1",
                   &health.subject.start);
    subject_number(&health.subject, "SELECT recorded_end_ts FROM trace WHERE id = ?1",
                   &health.subject.end);
    health.subject.start = time_bounded(health.subject.start);
    health.subject.end = time_bounded(health.subject.end);
    stats_take(&health);
    for (enum health_kind kind = 0; kind < N_HEALTH; kind++)
        kind_tell(&health, kind);
    if (health.failed || health.subject.code == SQLITE_NOMEM)
        return err_errno(err, -ENOMEM, "stats");
    return health.subject.code == SQLITE_OK
               ? 0
               : err_set(err, -EIO, "stats: %s", health.subject.problem);
}

void health_lines_done(struct health_line_vec *lines)
{
    vec_foreach(lines, line) {
        free(line->what);
        free(line->hint);
    }
    health_line_vec_done(lines);
}
