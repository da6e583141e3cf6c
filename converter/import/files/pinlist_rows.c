// SPDX-License-Identifier: Apache-2.0
//
// pinlist.meta, see common/pinlist.h. The format has no signature: a file with another name is a
// pinlist only if all its pairs are whole pages.
#include <string.h>

#include "common/cleanup.h"
#include "common/pinlist.h"
#include "common/str.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/rows.h"

#define PAGE_MASK       4095
#define PAIRS_LOOKED_AT 4096
#define SIZE_MAX_BYTES  ((size_t)64 << 20) // 8 million ranges
#define ASK_RANGES      2048

static bool pinlist_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (str_ends_with(path, ".meta") || strstr(slash ? slash : path, "pinlist"))
        return true;
    CLEANUP(pinlist_done) struct pinlist list = {0};
    size_t looked_at = PAIRS_LOOKED_AT * PINLIST_PAIR_BYTES;
    if (!size || size % PINLIST_PAIR_BYTES ||
        pinlist_parse(bytes, size < looked_at ? size : looked_at, path, &list, NULL) < 0)
        return false;
    vec_foreach(&list, range)
        if ((range->offset | range->length) & PAGE_MASK || !range->length)
            return false;
    return true;
}

static int ranges_import(struct file_import *in, int64_t id, const struct pinlist *list,
                         struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open(&rows, in->handle, TABLE_pinlist_range, err);
    for (size_t i = 0; i < list->n && r == 0; i++) {
        rows_int(&rows, COL_pinlist_range_pinlist_id, id);
        rows_int(&rows, COL_pinlist_range_offset_bytes, list->items[i].offset);
        rows_int(&rows, COL_pinlist_range_size_bytes, list->items[i].length);
        rows_put(&rows);
        if (i % ASK_RANGES == 0 && !file_goes_on(in))
            return -ECANCELED;
        r = rows_error(&rows, err);
    }
    return r;
}

static int pinlist_import(struct file_import *in, const uint8_t *bytes, size_t size,
                          struct err *err)
{
    CLEANUP(pinlist_done) struct pinlist list = {0};
    CLEANUP(rows_close) struct rows rows = {0};
    if (size > SIZE_MAX_BYTES)
        return err_set(err, -EFBIG, "%s: larger than any pinlist", in->path);
    int r = pinlist_parse(bytes, size, in->path, &list, err);
    if (r == 0)
        r = rows_open(&rows, in->handle, TABLE_pinlist, err);
    if (r < 0)
        return r;
    rows_text(&rows, COL_pinlist_path, in->path, strlen(in->path));
    if (in->argument)
        rows_text(&rows, COL_pinlist_target, in->argument, strlen(in->argument));
    rows_int(&rows, COL_pinlist_n_ranges, (int64_t)list.n);
    rows_int(&rows, COL_pinlist_size_bytes, (int64_t)pinlist_total_bytes(&list));
    int64_t id = rows_put(&rows);
    r = rows_error(&rows, err);
    return r < 0 ? r : ranges_import(in, id, &list, err);
}

const struct file_format file_format_pinlist = {
    .name = "pinlist",
    .option = "pinlist",
    .recognise = pinlist_recognise,
    .import = pinlist_import,
};
