// SPDX-License-Identifier: Apache-2.0
//
// The process that grew. The rule counts anonymous memory in RAM, which only the process can free.
// If no process grew enough by these counters, the rule uses the heap of a profiled process.
//
// A trace may have millions of readings. A process with many readings is therefore sampled through
// the index on track and time, and only the process that grew most is read in full. The sentence
// names two readings, so it is true for any values of the other readings.
#include "converter/verdict/rules.h"

#include "common/cleanup.h"

#define PLACES_MAX   48    // samples of a process
#define LOOKS_MAX    12000 // samples of all processes
#define READINGS_FEW 500   // up to this number, a process is read in full
#define READINGS_MAX 50000 // up to this number, the process that grew most is read in full
#define WORTH_SHORT  ((double)(8 << 20))
#define WORTH_QUIET  ((double)(64 << 20))

static const char query[] = "SELECT pid, process_name, ts, size_bytes, change_bytes FROM "
                            "process_memory WHERE name = 'mem.rss.anon' ORDER BY upid, ts";
static const char query_heap[] = "SELECT process_name, ts, function, growth_bytes FROM heap_growth "
                                 "ORDER BY growth_bytes DESC";

struct reading {
    int64_t ts;
    double value;
};

// The growth from the lowest reading to the highest reading after it.
struct growth {
    int64_t upid, track;
    struct reading low, high, last;
    double bytes;
    bool has_low;
    struct reading lowest; // so far
};

static void growth_take(struct growth *growth, int64_t ts, double value)
{
    growth->last = (struct reading){ts, value};
    if (!growth->has_low || value < growth->lowest.value)
        growth->lowest = growth->last;
    growth->has_low = true;
    if (value - growth->lowest.value > growth->bytes) {
        growth->bytes = value - growth->lowest.value;
        growth->low = growth->lowest;
        growth->high = growth->last;
    }
}

static void places_look(struct growth *growth, struct subject *subject, sqlite3_stmt *look,
                        int64_t n_places)
{
    int64_t before = INT64_MIN;
    for (int64_t i = 0; i <= n_places; i++) {
        int64_t ts = subject->start + (int64_t)((double)(subject->end - subject->start) *
                                                (double)i / (double)n_places);
        sqlite3_reset(look);
        sqlite3_bind_int64(look, 2, growth->track);
        sqlite3_bind_int64(look, 3, ts);
        if (!subject_row(subject, look) || subject_time(look, 0) == before)
            continue;
        before = subject_time(look, 0);
        growth_take(growth, before, sqlite3_column_double(look, 1));
    }
}

// Reads all readings. Returns false, with *growth unchanged, if there are more than `max` readings.
static bool readings_look(struct growth *growth, struct subject *subject, int64_t max)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(subject, "SELECT ts, value FROM counter WHERE track_id = ?2 "
                                             "AND ?1 >= 0 ORDER BY ts LIMIT ?3");
    struct growth exact = {.upid = growth->upid, .track = growth->track};
    if (!row)
        return false;
    sqlite3_bind_int64(row, 2, growth->track);
    sqlite3_bind_int64(row, 3, max + 1);
    int64_t n = 0;
    for (; subject_row(subject, row); n++)
        growth_take(&exact, subject_time(row, 0), sqlite3_column_double(row, 1));
    if (n <= max)
        *growth = exact;
    return n <= max;
}

// Finds the process that grew most, and the second.
static void processes_look(struct subject *subject, struct growth *most, struct growth *next)
{
    CLEANUP(subject_end)
    sqlite3_stmt *tracks =
        subject_ask(subject, "SELECT id, upid, count(*) OVER () FROM _track WHERE "
                             "type = 'process_memory' AND name = 'mem.rss.anon' AND upid NOT NULL "
                             "AND machine_id " OF_TRACE);
    CLEANUP(subject_end)
    sqlite3_stmt *look =
        subject_ask(subject, "SELECT ts, value FROM counter WHERE track_id = ?2 AND ts <= ?3 "
                             "AND ?1 >= 0 ORDER BY ts DESC LIMIT 1");
    while (look && subject_row(subject, tracks)) {
        struct growth growth = {.track = sqlite3_column_int64(tracks, 0),
                                .upid = sqlite3_column_int64(tracks, 1)};
        int64_t n_looks = LOOKS_MAX / sqlite3_column_int64(tracks, 2);
        if (!readings_look(&growth, subject, n_looks < READINGS_FEW ? n_looks : READINGS_FEW))
            places_look(&growth, subject, look,
                        n_looks > PLACES_MAX ? PLACES_MAX
                        : n_looks < 2        ? 2
                                             : n_looks);
        if (growth.bytes > most->bytes) {
            *next = *most;
            *most = growth;
        } else if (growth.bytes > next->bytes) {
            *next = growth;
        }
    }
}

static void growth_tell(struct subject *subject, const struct growth *most,
                        const struct growth *next, double worth)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    text_tell(&text, subject, "%T grew most: from %B at %A to %B at %A (anonymous memory)",
              most->upid, NOT_KNOWN, most->low.value, most->low.ts, most->high.value,
              most->high.ts);
    if (most->high.value - most->last.value > most->bytes / 4)
        text_tell(&text, subject, ", and had %B when it was read last", most->last.value);
    if (next->bytes >= worth)
        text_tell(&text, subject, "; next was %T with %B more", next->upid, NOT_KNOWN, next->bytes);
    strbuf_add_char(&text, '.');
    subject_found(subject, VERDICT_GROWTH, VERDICT_NOTICE, most->low.ts,
                  most->high.ts - most->low.ts, &text, query);
}

// Adds a finding about heap profiles. Each dump of a heap profile has the difference from the dump
// before.
static bool heaps_tell(struct subject *subject)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        subject,
        "SELECT h.upid, sum(h.size), count(DISTINCT h.ts), min(h.ts), max(h.ts), "
        "sum(h.size) FILTER (WHERE h.ts > f.ts) FROM heap_profile_allocation h JOIN "
        "(SELECT upid, min(ts) AS ts FROM heap_profile_allocation GROUP BY upid) f USING (upid) "
        "JOIN process p ON p.upid = h.upid WHERE p.machine_id " OF_TRACE
        " GROUP BY h.upid ORDER BY 2 DESC LIMIT 1");
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (!subject_row(subject, row))
        return false;
    int64_t n_dumps = sqlite3_column_int64(row, 2), first = subject_time(row, 3),
            last = subject_time(row, 4);
    double bytes = sqlite3_column_double(row, 1), grown = sqlite3_column_double(row, 5);
    int64_t upid = sqlite3_column_int64(row, 0);
    text_tell(&text, subject, "%T had allocated and not freed %B by its last dump at %A", upid,
              NOT_KNOWN, bytes, last);
    if (n_dumps > 1)
        text_tell(&text, subject, ", %B %s than at its first at %S", grown < 0 ? -grown : grown,
                  grown < 0 ? "less" : "more", first);
    strbuf_add_str(&text, " (heap profile).");
    subject_found(subject, VERDICT_GROWTH, VERDICT_NOTICE, first, last - first, &text, query_heap);
    return true;
}

void rule_growth(struct subject *subject, bool was_short)
{
    struct growth most = {0}, next = {0};
    double worth = was_short ? WORTH_SHORT : WORTH_QUIET;
    processes_look(subject, &most, &next);
    if (most.bytes > 0)
        readings_look(&most, subject, READINGS_MAX);
    if (subject->code == SQLITE_OK && most.bytes >= worth)
        growth_tell(subject, &most, &next, worth);
    else if (subject->code == SQLITE_OK)
        heaps_tell(subject);
}
