// SPDX-License-Identifier: Apache-2.0
//
// A recording may come from another machine, or from before the file was copied. Therefore files
// are matched by their names first; by device and inode if no name matches; and by the last part of
// the name if neither matches. The events of the page cache name a file by device and inode only.
// These numbers come from the recording, if it has a file that matches, or else from the file as it
// is now.
#include "producer/pintool/gather.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

struct known_file {
    uint64_t id, device, inode, page_size;
    int likeness; // 0: another file
};

VEC_DEFINE(known_files, struct known_file);

struct gathering {
    const struct mmsql *mmsql;
    const struct gather_subject *subject;
    struct evidence *evidence;
    struct gather_sources *sources;
    struct known_files files; // owned; the best matches
    int likeness;             // of all matches
    struct err *err;
};

static bool equals_hex(const char *hex, const char *text, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    if (strlen(hex) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (hex[2 * i] != digits[c >> 4] || hex[2 * i + 1] != digits[c & 15])
            return false;
    }
    return true;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int take_file(void *userdata, const struct mmsql_row *row)
{
    struct gathering *g = userdata;
    if (row->n < 6)
        return -EBADMSG;
    const char *path = g->subject->path, *name = last_part(path);
    struct known_file file = {(uint64_t)row->values[0], (uint64_t)row->values[1],
                              (uint64_t)row->values[2], (uint64_t)row->values[3], 0};
    if (equals_hex(row->texts[4], path, strlen(path)))
        file.likeness = 3;
    else if (file.device == g->subject->device && file.inode == g->subject->inode)
        file.likeness = 2;
    else if (equals_hex(row->texts[5], name, strlen(name)))
        file.likeness = 1;
    if (file.likeness > g->likeness) {
        known_files_clear(&g->files);
        g->likeness = file.likeness;
    }
    return file.likeness && file.likeness == g->likeness ? known_files_push(&g->files, file) : 0;
}

static int take_number(void *userdata, const struct mmsql_row *row)
{
    *(uint64_t *)userdata = row->n ? (uint64_t)row->values[0] : 0;
    return 0;
}

static int take_span(void *userdata, const struct mmsql_row *row)
{
    struct gathering *g = userdata;
    if (row->n < 3)
        return -EBADMSG;
    evidence_resident(g->evidence, (uint64_t)row->values[0], (uint64_t)row->values[1],
                      (uint32_t)row->values[2]);
    return 0;
}

static int take_change(void *userdata, const struct mmsql_row *row)
{
    struct gathering *g = userdata;
    if (row->n < 4)
        return -EBADMSG;
    void (*tell)(struct evidence *, nsec_t, uint64_t, uint64_t) =
        row->values[1] ? evidence_came : evidence_went;
    tell(g->evidence, row->values[0], (uint64_t)row->values[2], (uint64_t)row->values[3]);
    g->sources->n_changes++;
    return 0;
}

static int take_event(void *userdata, const struct mmsql_row *row)
{
    struct gathering *g = userdata;
    if (row->n < 3)
        return -EBADMSG;
    if (row->values[1])
        evidence_added(g->evidence, row->values[0], (uint64_t)row->values[2]);
    else
        evidence_deleted(g->evidence, row->values[0], (uint64_t)row->values[2]);
    g->sources->n_events++;
    return 0;
}

__attribute__((format(printf, 4, 5))) static int ask(struct gathering *g,
                                                     int (*row)(void *, const struct mmsql_row *),
                                                     void *userdata, const char *format, ...)
{
    char sql[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(sql))
        return err_errno(g->err, -E2BIG, "query");
    return mmsql_query(g->mmsql, sql, row, userdata, g->err);
}

static int find_files(struct gathering *g)
{
    uint64_t n_tables = 0;
    int r = ask(g, take_number, &n_tables,
                "SELECT count(*) FROM sqlite_master WHERE name = 'page_residency_file'");
    if (r < 0 || !n_tables)
        return r;
    // The last column is the part after the last slash.
    return ask(g, take_file, g,
               "SELECT id, device, inode, page_size_bytes, hex(path), hex(substr(path, 1 + "
               "length(rtrim(path, replace(path, '/', ''))))) FROM page_residency_file");
}

static int gather_samples(struct gathering *g, const struct known_file *file)
{
    uint64_t n = 0;
    int r = ask(g, take_number, &n,
                "SELECT count(*) FROM page_residency_sample WHERE detail = 'exact' AND file_id = "
                "%" PRIu64,
                file->id);
    if (r < 0)
        return r;
    g->sources->n_samples += n;
    return ask(g, take_span, g,
               "SELECT r.start_page, r.end_page, (SELECT count(*) FROM page_residency_sample s "
               "WHERE s.file_id = r.file_id AND s.id BETWEEN r.first_sample_id AND "
               "r.last_sample_id AND s.detail = 'exact') FROM page_residency_span r WHERE "
               "r.file_id = %" PRIu64,
               file->id);
}

static int gather_changes(struct gathering *g, const struct known_file *file)
{
    return ask(g, take_change, g,
               "SELECT ts, came, start_page, end_page FROM page_residency_change WHERE file_id = "
               "%" PRIu64 " ORDER BY ts, id",
               file->id);
}

static int gather_events(struct gathering *g, uint64_t device, uint64_t inode)
{
    return ask(g, take_event, g,
               "SELECT e.ts, e.name = 'mm_filemap_add_to_page_cache', p.int_value "
               "FROM ftrace_event e "
               "JOIN args i ON i.arg_set_id = e.arg_set_id AND i.key = 'i_ino' "
               "JOIN args d ON d.arg_set_id = e.arg_set_id AND d.key = 's_dev' "
               "JOIN args p ON p.arg_set_id = e.arg_set_id AND p.key = 'index' "
               "WHERE e.name IN ('mm_filemap_add_to_page_cache', "
               "'mm_filemap_delete_from_page_cache') "
               "AND i.int_value = %" PRIu64 " AND d.int_value = %" PRIu64 " ORDER BY e.ts, e.id",
               inode, device);
}

static int gather_all(struct gathering *g)
{
    int r = find_files(g);
    bool events_asked = false;
    vec_foreach(&g->files, file) {
        if (r < 0)
            return r;
        if (file->page_size != g->subject->page_size)
            return err_set(g->err, -EINVAL,
                           "%s: recorded in pages of %" PRIu64 " bytes, not %" PRIu64,
                           g->subject->path, file->page_size, g->subject->page_size);
        r = gather_samples(g, file);
        if (r == 0)
            r = gather_events(g, file->device, file->inode);
        events_asked = true;
    }
    if (r == 0 && !events_asked)
        r = gather_events(g, g->subject->device, g->subject->inode);
    if (g->sources->n_events)
        return r;
    vec_foreach(&g->files, file)
        if (r == 0)
            r = gather_changes(g, file);
    return r;
}

int gather_evidence(const struct mmsql *mmsql, const struct gather_subject *subject,
                    struct evidence *evidence, struct gather_sources *ret, struct err *err)
{
    struct gather_sources sources = {0};
    struct gathering g = {
        .mmsql = mmsql, .subject = subject, .evidence = evidence, .sources = &sources, .err = err};
    int r = gather_all(&g);
    known_files_done(&g.files);
    evidence_end(evidence);
    evidence->n_samples = sources.n_samples;
    if (r < 0)
        return r;
    if (!sources.n_samples && !sources.n_events) {
        err_set(err, -ENOENT, "%s: the recording says nothing about it", subject->path);
        return err_hint(err, -ENOENT, "--recorded-as gives the file's name in the recording");
    }
    *ret = sources;
    return 0;
}
