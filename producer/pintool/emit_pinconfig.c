// SPDX-License-Identifier: Apache-2.0
//
// A pattern is not a name: each entry takes the first pattern that its name contains. Therefore
//
//     longer names stand before shorter names that they contain;
//     an entry that should get nothing, but contains a given name, gets an empty range.
//
// These entries are found by a search for each given name in the names of all entries, which are
// joined to one text. Whole entries have no ranges: people write them that way, and they stay whole
// if the entry grows.
#include "producer/pintool/emit_pinconfig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/pinconfig.h"

#define SEARCH_BYTES_MAX ((uint64_t)16 << 30) // takes a few seconds

// An entry that the config mentions.
struct said {
    const char *name;               // borrowed
    const struct coverage *covered; // borrowed; NULL: the entry gets nothing
    size_t name_bytes;
};

VEC_DEFINE(said_list, struct said);
VEC_DEFINE(name_starts, size_t);

struct emitting {
    const struct zipindex *zip;        // borrowed
    const struct coverages *coverages; // borrowed
    struct said_list said;             // owned
    struct strbuf names;               // owned; of all entries, each followed by a newline
    struct name_starts starts;         // owned; of each name in `names`
    uint64_t n_broken_bytes;           // of names that contain a newline
    size_t n_left_out;
    char (*first_left_out)[128]; // borrowed
};

static void emitting_done(struct emitting *e)
{
    said_list_done(&e->said);
    strbuf_done(&e->names);
    name_starts_done(&e->starts);
}

static void leave_out(struct emitting *e, const char *name)
{
    if (!e->n_left_out++)
        str_printable(*e->first_left_out, sizeof(*e->first_left_out), name, strlen(name));
}

static int say(struct emitting *e, const char *name, const struct coverage *covered)
{
    return said_list_push(&e->said, (struct said){name, covered, strlen(name)});
}

static bool can_be_said(const char *name)
{
    CLEANUP(strbuf_done) struct strbuf unused = {0};
    return pinconfig_add_file(&unused, name);
}

// Longer names first; for the same name, covered entries first.
static int compare(const void *a, const void *b)
{
    const struct said *x = a, *y = b;
    if (x->name_bytes != y->name_bytes)
        return x->name_bytes > y->name_bytes ? -1 : 1;
    int r = strcmp(x->name, y->name);
    return r ? r : (x->covered == NULL) - (y->covered == NULL);
}

static int gather_covered(struct emitting *e)
{
    vec_foreach(&e->coverages->items, item) {
        if (!item->covered_bytes)
            continue;
        if (!can_be_said(item->part.name)) {
            leave_out(e, item->part.name);
            continue;
        }
        int r = say(e, item->part.name, item);
        if (r < 0)
            return r;
    }
    return 0;
}

static int gather_names(struct emitting *e)
{
    vec_foreach(&e->zip->entries, entry) {
        if (strchr(entry->name, '\n')) {
            e->n_broken_bytes += strlen(entry->name);
            continue;
        }
        int r = name_starts_push(&e->starts, e->names.size);
        if (r < 0)
            return r;
        strbuf_add_str(&e->names, entry->name);
        strbuf_add_char(&e->names, '\n');
    }
    return e->names.failed ? -ENOMEM : 0;
}

// Returns the start of the name that has the byte `at`.
static size_t start_of(const struct name_starts *starts, size_t at)
{
    size_t low = 0, high = starts->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (starts->items[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return starts->items[low];
}

// Gathers the entries whose names contain the name and are longer.
static int gather_containing(struct emitting *e, const struct said *said, struct strbuf *ret)
{
    const char *at = e->names.text, *end = e->names.text + e->names.size;
    while (at && at < end) {
        const char *found = memmem(at, (size_t)(end - at), said->name, said->name_bytes);
        if (!found)
            break;
        const char *start = e->names.text + start_of(&e->starts, (size_t)(found - e->names.text));
        const char *newline = memchr(found, '\n', (size_t)(end - found));
        if ((size_t)(newline - start) > said->name_bytes)
            strbuf_add(ret, start, (size_t)(newline - start) + 1);
        at = newline + 1;
    }
    return ret->failed ? -ENOMEM : 0;
}

// A pinconfig cannot express a name with a newline: nothing protects this entry from patterns that
// its name contains.
static void leave_out_broken(struct emitting *e, size_t n_covered)
{
    vec_foreach(&e->zip->entries, entry) {
        bool contains = false;
        for (size_t i = 0; strchr(entry->name, '\n') && i < n_covered && !contains; i++)
            contains = strstr(entry->name, e->said.items[i].name);
        if (contains)
            leave_out(e, entry->name);
    }
}

// Adds an empty range for each name in `containing`. Replaces the newlines by terminators; the text
// must outlive the list. An entry that gets bytes is in the list already, and sorting puts this
// entry before the empty range of the same name.
static int say_containing(struct emitting *e, struct strbuf *containing)
{
    char *name = containing->text;
    for (char *newline; name && (newline = strchr(name, '\n')); name = newline + 1) {
        *newline = '\0';
        int r = say(e, name, NULL);
        if (r < 0)
            return r;
    }
    return 0;
}

static void write_one(struct emitting *e, const struct said *said, struct strbuf *ret)
{
    const struct coverage *item = said->covered;
    bool is_said = pinconfig_add_file(ret, said->name);
    if (!item && is_said)
        pinconfig_add_range(ret, 0, 0);
    else if (!item)
        leave_out(e, said->name);
    if (!item || item->covered_bytes == item->part.size_bytes)
        return;
    const struct page_range *ranges = coverage_ranges(e->coverages, item);
    for (size_t i = 0; i < item->n_ranges; i++)
        pinconfig_add_range(ret, ranges[i].start - item->part.offset,
                            ranges[i].end - ranges[i].start);
}

static void write_all(struct emitting *e, struct strbuf *ret)
{
    const struct said *before = NULL;
    if (e->said.n)
        qsort(e->said.items, e->said.n, sizeof(*e->said.items), compare);
    vec_foreach(&e->said, said) {
        bool again = before && str_eq(before->name, said->name);
        if (again && said->covered) // two entries with the same name cannot be distinguished
            leave_out(e, said->name);
        else if (!again)
            write_one(e, said, ret);
        before = said;
    }
}

int emit_pinconfig(const struct zipindex *zip, const struct coverages *coverages,
                   const char *zip_name, struct strbuf *ret, size_t *ret_left_out,
                   char (*first_left_out)[128], struct err *err)
{
    CLEANUP(emitting_done)
    struct emitting e = {.zip = zip, .coverages = coverages, .first_left_out = first_left_out};
    CLEANUP(strbuf_done) struct strbuf containing = {0};
    int r = gather_covered(&e);
    if (r == 0)
        r = gather_names(&e);
    size_t n_covered = e.said.n;
    if (r == 0 && !n_covered)
        return err_set(err, -ENODATA, "%s: no pinconfig is written: none of its entries has a page",
                       zip_name);
    if (r == 0 && (uint64_t)n_covered * (e.names.size + e.n_broken_bytes) > SEARCH_BYTES_MAX)
        return err_set(err, -EFBIG, "%s: too many entries to tell them apart in a pinconfig",
                       zip_name);
    for (size_t i = 0; r == 0 && i < n_covered; i++)
        r = gather_containing(&e, &e.said.items[i], &containing);
    if (r == 0 && e.n_broken_bytes)
        leave_out_broken(&e, n_covered);
    if (r == 0)
        r = say_containing(&e, &containing);
    if (r == 0)
        write_all(&e, ret);
    if (r < 0 || ret->failed)
        return err_errno(err, -ENOMEM, "%s", zip_name);
    *ret_left_out = e.n_left_out;
    return 0;
}

int emit_pinconfig_write(const struct list_output *output, const char *path,
                         const struct zipindex *zip, const struct coverages *coverages,
                         const char *zip_name, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    size_t n_left_out = 0;
    char first[128];
    int r = emit_pinconfig(zip, coverages, zip_name, &text, &n_left_out, &first, err);
    if (r == 0)
        r = list_output_write_text(output, path, &text, zip_name, err);
    if (r < 0 || !n_left_out)
        return r;
    return err_set(
        err, -EILSEQ,
        "%s: %zu names cannot be written in a pinconfig, or could not be told from others "
        "there; the first: %s",
        path, n_left_out, first);
}
