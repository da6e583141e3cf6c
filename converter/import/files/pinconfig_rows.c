// SPDX-License-Identifier: Apache-2.0
//
// pinconfig.txt: a row for each range of a file, or a row without a range for a whole file. See
// common/pinconfig.h.
#include <string.h>

#include "common/cleanup.h"
#include "common/pinconfig.h"
#include "converter/ground/lines.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/rows.h"

#define LINES_LOOKED_AT 64
#define SIZE_MAX_BYTES  ((size_t)64 << 20) // of a file that people write

static bool pinconfig_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    struct lines lines = lines_over(bytes, size);
    struct span line;
    while (lines.number < LINES_LOOKED_AT && lines_next(&lines, &line)) {
        if (line.at == line.end || *line.at == '#')
            continue;
        return text_is(word_take(&line), "file") && line.at < line.end && !text_is_binary(line);
    }
    return false;
}

static void rule_put(struct rows *rows, int64_t config, const struct pinconfig_file *file,
                     const struct pinconfig_range *range)
{
    rows_int(rows, COL_pinconfig_rule_pinconfig_id, config);
    rows_int(rows, COL_pinconfig_rule_line, range ? range->line : file->line);
    rows_text(rows, COL_pinconfig_rule_pattern, file->pattern, strlen(file->pattern));
    if (range) {
        rows_int(rows, COL_pinconfig_rule_offset_bytes, (int64_t)range->offset);
        rows_int(rows, COL_pinconfig_rule_size_bytes, (int64_t)range->length);
    }
    rows_put(rows);
}

static int rules_import(struct file_import *in, int64_t id, const struct pinconfig *config,
                        struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open(&rows, in->handle, TABLE_pinconfig_rule, err);
    if (r < 0)
        return r;
    vec_foreach(&config->files, file) {
        for (size_t i = 0; i < file->n_ranges; i++)
            rule_put(&rows, id, file, &config->ranges.items[file->first_range + i]);
        if (!file->n_ranges)
            rule_put(&rows, id, file, NULL);
    }
    return rows_error(&rows, err);
}

static int pinconfig_import(struct file_import *in, const uint8_t *bytes, size_t size,
                            struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    if (size > SIZE_MAX_BYTES)
        return err_set(err, -EFBIG, "%s: larger than any pinconfig", in->path);
    int r = pinconfig_parse((const char *)bytes, size, in->path, &config, err);
    if (r == 0)
        r = rows_open(&rows, in->handle, TABLE_pinconfig, err);
    if (r < 0)
        return r;
    rows_text(&rows, COL_pinconfig_path, in->path, strlen(in->path));
    int64_t id = rows_put(&rows);
    r = rows_error(&rows, err);
    return r < 0 ? r : rules_import(in, id, &config, err);
}

const struct file_format file_format_pinconfig = {
    .name = "pinconfig",
    .option = "pinconfig",
    .recognise = pinconfig_recognise,
    .import = pinconfig_import,
};
