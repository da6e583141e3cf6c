// SPDX-License-Identifier: Apache-2.0
//
// A list depends on the places of the entries that it names. If each entry is at its place with the
// same data, the list fits, whatever else has changed. A zip that was signed, or that got the list
// itself as an entry after the others, is still the same build. A zip whose entries have moved is
// another build. Size and checksum come from the zip's directory; no data are read.
#include "producer/pintool/list_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/embedded_list.h"

#define HEAD "pinlist-source 1\n"

VEC_DEFINE(entry_refs, const struct zipindex_entry *);

static uint32_t crc_of(const struct strbuf *bytes)
{
    return (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)bytes->text, (uInt)bytes->size);
}

// Returns whether the name fits on one line and can be read back.
static bool can_be_written(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ')
            return false;
    return *name;
}

static bool touches(const struct page_ranges *set, const struct zipindex_entry *entry)
{
    size_t first = coverage_first(set, entry->offset);
    return first < set->n && set->items[first].start < entry->offset + entry->size_bytes;
}

// Returns whether the entry is added to finished zips, and may differ from build to build.
static bool is_added_later(const char *name)
{
    return str_eq(name, EMBEDDED_LIST_NAME) || str_starts_with(name, "META-INF/");
}

static int entry_add(struct list_source *source, const struct zipindex_entry *entry,
                     const char *name, size_t name_bytes)
{
    struct zipindex_entry copy = *entry;
    copy.name = arena_strndup(&source->names, name, name_bytes);
    return copy.name ? zipindex_entries_push(&source->entries, copy) : -ENOMEM;
}

int list_source_make(const struct pinlist *list, const struct zipindex *index, const char *zip_name,
                     uint64_t zip_bytes, struct list_source *ret)
{
    CLEANUP(list_source_done) struct list_source source = {.known = true, .zip_bytes = zip_bytes};
    CLEANUP(page_ranges_done) struct page_ranges set = {0};
    const char *slash = strrchr(zip_name, '/'), *last = slash ? slash + 1 : zip_name;
    int r = pinlist_to_ranges(list, &set);
    source.zip_name = arena_strndup(&source.names, last, strlen(last));
    if (r == 0 && !source.zip_name)
        r = -ENOMEM;
    vec_foreach(&index->entries, entry) {
        if (r == 0 && entry->size_bytes && source.entries.n < LIST_SOURCE_ENTRIES_MAX &&
            can_be_written(entry->name) && !is_added_later(entry->name) && touches(&set, entry))
            r = entry_add(&source, entry, entry->name, strlen(entry->name));
    }
    if (r < 0)
        return r;
    *ret = source;
    source = (struct list_source){0};
    return 0;
}

void list_source_encode(const struct list_source *source, const struct strbuf *list,
                        struct strbuf *ret)
{
    strbuf_add_str(ret, HEAD);
    strbuf_addf(ret, "list crc32=%08" PRIx32 "\n", crc_of(list));
    strbuf_addf(ret, "zip size=%" PRIu64 " name=%s\n", source->zip_bytes,
                can_be_written(source->zip_name) ? source->zip_name : "?");
    vec_foreach(&source->entries, entry)
        strbuf_addf(ret, "entry offset=%" PRIu64 " size=%" PRIu64 " crc32=%08" PRIx32 " name=%s\n",
                    entry->offset, entry->size_bytes, entry->crc32, entry->name);
}

static bool eat(const char **at, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

static bool eat_u64(const char **at, const char *end, const char *word, uint64_t *ret)
{
    return eat(at, end, word) && *at < end && **at != ' ' && str_scan_u64(at, end, ret);
}

static bool eat_crc(const char **at, const char *end, uint32_t *ret)
{
    uint64_t value;
    if (!eat(at, end, "crc32=") || !str_scan_hex(at, end, &value) || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

// Returns 1 if the line is understood or skipped, 0 if it is malformed, or -ENOMEM.
static int line_parse(struct list_source *source, const char *at, const char *end)
{
    struct zipindex_entry entry = {0};
    if (eat(&at, end, "zip ")) {
        if (!eat_u64(&at, end, "size=", &source->zip_bytes) || !eat(&at, end, " name="))
            return 0;
        source->zip_name = arena_strndup(&source->names, at, (size_t)(end - at));
        return source->zip_name ? 1 : -ENOMEM;
    }
    if (!eat(&at, end, "entry "))
        return 1;
    if (!eat_u64(&at, end, "offset=", &entry.offset) ||
        !eat_u64(&at, end, " size=", &entry.size_bytes) || !eat(&at, end, " ") ||
        !eat_crc(&at, end, &entry.crc32) || !eat(&at, end, " name=") || at == end ||
        memchr(at, '\0', (size_t)(end - at)) || source->entries.n == LIST_SOURCE_ENTRIES_MAX)
        return 0;
    int r = entry_add(source, &entry, at, (size_t)(end - at));
    return r < 0 ? r : 1;
}

int list_source_parse(const char *text, size_t size, const struct strbuf *list,
                      struct list_source *ret)
{
    CLEANUP(list_source_done) struct list_source source = {.known = true};
    const char *at = text, *end = text + size;
    uint32_t crc;
    int r = size && eat(&at, end, HEAD "list ") && eat_crc(&at, end, &crc) && eat(&at, end, "\n") &&
            crc == crc_of(list);
    while (r > 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        r = newline ? line_parse(&source, at, newline) : 0;
        at = newline ? newline + 1 : end;
    }
    if (r < 0)
        return r;
    *ret = (struct list_source){0};
    if (r == 0 || !source.zip_name)
        return 0;
    *ret = source;
    source = (struct list_source){0};
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct zipindex_entry *x = *(const struct zipindex_entry *const *)a;
    const struct zipindex_entry *y = *(const struct zipindex_entry *const *)b;
    return strcmp(x->name, y->name);
}

static bool is_same(const struct zipindex_entry *a, const struct zipindex_entry *b)
{
    return a->offset == b->offset && a->size_bytes == b->size_bytes && a->crc32 == b->crc32;
}

// Returns the unchanged entry with this name, else any entry with this name, or NULL.
static const struct zipindex_entry *find(const struct entry_refs *sorted,
                                         const struct zipindex_entry *wanted)
{
    size_t low = 0, high = sorted->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sorted->items[middle]->name, wanted->name) >= 0)
            high = middle;
        else
            low = middle + 1;
    }
    const struct zipindex_entry *found = NULL;
    for (; low < sorted->n && str_eq(sorted->items[low]->name, wanted->name); low++) {
        found = sorted->items[low];
        if (is_same(found, wanted))
            break;
    }
    return found;
}

static void describe(const struct zipindex_entry *was, const struct zipindex_entry *is, char *ret,
                     size_t size)
{
    char name[160];
    str_printable(name, sizeof(name), was->name, strlen(was->name));
    if (!is)
        snprintf(ret, size, "%s is not in it", name);
    else if (was->offset != is->offset || was->size_bytes != is->size_bytes)
        snprintf(ret, size,
                 "%s is at byte %" PRIu64 " with %" PRIu64 " bytes, and was at %" PRIu64
                 " with %" PRIu64,
                 name, is->offset, is->size_bytes, was->offset, was->size_bytes);
    else
        snprintf(ret, size, "%s has other data", name);
}

int list_source_compare(const struct list_source *source, const struct zipindex *index,
                        struct list_source_change *ret)
{
    CLEANUP(entry_refs_done) struct entry_refs sorted = {0};
    int r = entry_refs_reserve(&sorted, index->entries.n);
    if (r < 0)
        return r;
    *ret = (struct list_source_change){.n_entries = source->entries.n};
    vec_foreach(&index->entries, entry)
        sorted.items[sorted.n++] = entry;
    if (sorted.n)
        qsort(sorted.items, sorted.n, sizeof(*sorted.items), compare_names);
    vec_foreach(&source->entries, was) {
        const struct zipindex_entry *is = find(&sorted, was);
        if (is && is_same(was, is))
            continue;
        if (!ret->n_changed++)
            describe(was, is, ret->first, sizeof(ret->first));
    }
    return 0;
}

int list_source_check(const struct list_source *source, const struct zipindex *index,
                      const char *list_path, const char *path, uint64_t beyond_bytes,
                      struct err *err)
{
    struct list_source_change change = {0};
    int r = source->known ? list_source_compare(source, index, &change) : 0;
    if (r < 0)
        return err_errno(err, r, "%s", list_path);
    if (change.n_changed) {
        err_set(err, 0, "%s was made of another build of %s: %s", list_path, path, change.first);
        err_hint(err, 0, "%zu of %zu entries differ", change.n_changed, change.n_entries);
        return 1;
    }
    if (!beyond_bytes)
        return 0;
    err_set(err, 0, "%s names %" PRIu64 " bytes beyond the end of %s", list_path, beyond_bytes,
            path);
    err_hint(err, 0, "it was made of another version of the file");
    return 1;
}

void list_source_done(struct list_source *source)
{
    zipindex_entries_done(&source->entries);
    arena_done(&source->names);
    *source = (struct list_source){0};
}
