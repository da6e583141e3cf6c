// SPDX-License-Identifier: Apache-2.0
//
// One config can be meant for many zips, and one range for many entries: a range is useful if it
// fits anywhere. Each range is compared with the largest entry that took its pattern.
#include "producer/pintool/stale.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define LINES_MAX 100 // further patterns and ranges are only counted

static int prepare(struct stale *stale, const struct pinconfig *config, const char *zip_name)
{
    if (stale->n_zips++)
        return 0;
    stale->zip_name = strdup(zip_name);
    int r = stale->zip_name ? stale_uses_reserve(&stale->uses, config->files.n) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < config->files.n; i++)
        stale->uses.items[stale->uses.n++] = (struct stale_use){0};
    return r;
}

static int take(struct stale_use *use, const struct zipindex_entry *entry)
{
    if (use->n_takers++ && entry->size_bytes <= use->largest_bytes)
        return 0;
    char *name = strdup(entry->name);
    if (!name)
        return -ENOMEM;
    free(use->largest);
    use->largest = name;
    use->largest_bytes = entry->size_bytes;
    return 0;
}

int stale_note(struct stale *stale, const struct pinconfig *config, const struct zipindex *zip,
               const char *zip_name)
{
    int r = prepare(stale, config, zip_name);
    vec_foreach(&zip->entries, entry) {
        bool taken = false;
        for (size_t i = 0; r == 0 && i < config->files.n; i++) {
            struct stale_use *use = &stale->uses.items[i];
            if (taken && use->n_matches) // no more can be learned
                continue;
            if (!strstr(entry->name, config->files.items[i].pattern))
                continue;
            use->n_matches++;
            if (!taken)
                r = take(use, entry);
            taken = true;
        }
        if (r < 0)
            return r;
    }
    return r;
}

struct printing {
    const char *config_name, *program;
    char zips[300];
    size_t n;
    FILE *out;
};

static bool line_begin(struct printing *p, unsigned line)
{
    if (p->n++ >= LINES_MAX)
        return false;
    fprintf(p->out, "%s: %s:%u: ", p->program, p->config_name, line);
    return true;
}

static void print_range(struct printing *p, const struct pinconfig_range *range,
                        const struct stale_use *use)
{
    char name[256];
    str_printable(name, sizeof(name), use->largest, strlen(use->largest));
    bool is_empty = !range->length;
    bool fits =
        range->offset < use->largest_bytes && range->length <= use->largest_bytes - range->offset;
    if ((fits && !is_empty) || (is_empty && !range->offset) || !line_begin(p, range->line))
        return;
    const char *what = is_empty                              ? "is empty"
                       : range->offset >= use->largest_bytes ? "lies beyond the entry"
                                                             : "is cut at the end of the entry";
    fprintf(p->out,
            "the range at offset %" PRIu64 " with %" PRIu64 " bytes %s: %s has %" PRIu64 " bytes\n",
            range->offset, range->length, what, name, use->largest_bytes);
}

static void print_pattern(struct printing *p, const struct pinconfig_file *file,
                          const struct stale_use *use)
{
    char pattern[256];
    str_printable(pattern, sizeof(pattern), file->pattern, strlen(file->pattern));
    if (!line_begin(p, file->line))
        return;
    if (use->n_matches)
        fprintf(p->out, "\"%s\" gets no entry of %s: patterns above it match the same names\n",
                pattern, p->zips);
    else
        fprintf(p->out, "\"%s\" matches no entry of %s\n", pattern, p->zips);
}

void stale_print(const struct stale *stale, const struct pinconfig *config, const char *config_name,
                 const char *program, FILE *out)
{
    struct printing p = {.config_name = config_name, .program = program, .out = out};
    if (!stale->n_zips)
        return;
    if (stale->n_zips == 1)
        str_printable(p.zips, sizeof(p.zips), stale->zip_name, strlen(stale->zip_name));
    else
        snprintf(p.zips, sizeof(p.zips), "%zu zips", stale->n_zips);
    for (size_t i = 0; i < stale->uses.n; i++) {
        const struct pinconfig_file *file = &config->files.items[i];
        const struct stale_use *use = &stale->uses.items[i];
        if (!use->n_takers)
            print_pattern(&p, file, use);
        for (size_t k = 0; use->n_takers && k < file->n_ranges; k++)
            print_range(&p, &config->ranges.items[file->first_range + k], use);
    }
    if (p.n > LINES_MAX)
        fprintf(out, "%s: %s: %zu more patterns and ranges have no effect\n", program, config_name,
                p.n - LINES_MAX);
}

void stale_done(struct stale *stale)
{
    vec_foreach(&stale->uses, use)
        free(use->largest);
    stale_uses_done(&stale->uses);
    free(stale->zip_name);
    *stale = (struct stale){0};
}
