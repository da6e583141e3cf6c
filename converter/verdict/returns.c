// SPDX-License-Identifier: Apache-2.0
//
// Evicted memory that came back: reclaimed pages, and reclaimed pages that were needed again
// (refaults). If the page cache was recorded, the sentence names the file.
#include "common/cleanup.h"
#include "converter/verdict/counter_values.h"
#include "converter/verdict/rules.h"

#define WORTH_TELLING ((double)(4 << 20)) // bytes that came back

static const char query[] = "SELECT ts, name, change FROM vmstat_rate WHERE change > 0 AND "
                            "(name GLOB 'pgsteal*' OR name GLOB 'workingset_refault*') ORDER BY ts";
static const char query_files[] = "SELECT path, direction, sum(n_pages) AS pages, sum(size_bytes) "
                                  "AS bytes FROM page_residency_changes GROUP BY path, direction";

static double pages_size(const struct subject *subject, int64_t pages)
{
    return (double)pages * (double)subject->page_bytes;
}

// The first and the last time when pages were evicted, or evicted pages came back.
struct moments {
    int64_t from, to;
};

static void moments_take(void *userdata, int64_t ts, int64_t end, double change)
{
    struct moments *moments = userdata;
    if (change <= 0)
        return;
    if (ts < moments->from)
        moments->from = ts;
    if (end > moments->to)
        moments->to = end;
}

// Adds the file with most pages that came back after their eviction.
static bool file_add(struct strbuf *text, struct subject *subject, struct moments *moments)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        subject, "SELECT f.path, sum((NOT c.came) * (c.end_page - c.start_page)), "
                 "f.page_size_bytes, min(c.ts) FILTER (WHERE NOT c.came), "
                 "sum((c.end_page - c.start_page) * (c.came AND c.ts > g.ts)) AS back, "
                 "max(c.ts) FILTER (WHERE c.came) "
                 "FROM page_residency_change c JOIN page_residency_file f ON f.id = c.file_id "
                 "JOIN (SELECT file_id, min(ts) AS ts FROM page_residency_change WHERE NOT came "
                 "GROUP BY file_id) g ON g.file_id = c.file_id "
                 "WHERE c.ts BETWEEN (SELECT start_ts FROM trace WHERE id = ?1) AND "
                 "(SELECT end_ts FROM trace WHERE id = ?1) "
                 "GROUP BY c.file_id ORDER BY back DESC LIMIT 1");
    if (!subject_row(subject, row) || sqlite3_column_int64(row, 4) <= 0)
        return false;
    const char *path = (const char *)sqlite3_column_text(row, 0);
    double page = sqlite3_column_double(row, 2);
    char name[256];
    str_printable(name, sizeof(name), path ? path : "", path ? strlen(path) : 0);
    *moments = (struct moments){subject_time(row, 3), subject_time(row, 5)};
    text_tell(text, subject, "%s lost %B from %A on, and %B came back", name,
              sqlite3_column_double(row, 1) * page, moments->from,
              sqlite3_column_double(row, 4) * page);
    return true;
}

void rule_return(struct subject *subject)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct reclaim_growth reclaimed = reclaim_growth(subject, "reclaimed");
    int64_t file = vmstat_growth(subject, "workingset_refault_file");
    int64_t anon = vmstat_growth(subject, "workingset_refault_anon");
    if (!file && !anon)
        file = vmstat_growth(subject, "workingset_refault");
    bool by_counters = pages_size(subject, file + anon) >= WORTH_TELLING;
    if (by_counters) {
        text_tell(&text, subject, "%B that had been evicted came back",
                  pages_size(subject, file + anon));
        if (anon)
            text_tell(&text, subject, ", %B of it anonymous", pages_size(subject, anon));
        if (reclaimed.pages)
            text_tell(&text, subject, "; %B were reclaimed %s",
                      pages_size(subject, reclaimed.pages),
                      reclaimed.has_memcg ? "in all" : "outside memory cgroups");
    }
    size_t before = text.size;
    if (by_counters)
        strbuf_add_str(&text, "; ");
    struct moments moments = {TIME_MAX, -TIME_MAX};
    bool of_file = file_add(&text, subject, &moments);
    if (!of_file && by_counters && !text.failed)
        text.text[text.size = before] = '\0';
    if (!by_counters && !of_file)
        return;
    strbuf_add_char(&text, '.');
    if (!of_file)
        counters_steps(subject, "vmstat", "workingset_refault*", moments_take, &moments);
    subject_found(subject, VERDICT_RETURN, VERDICT_NOTICE, moments.from, moments.to - moments.from,
                  &text, by_counters ? query : query_files);
}
