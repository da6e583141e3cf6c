// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc with a part for each memory zone: zoneinfo and buddyinfo. Both begin with "Node 0,
// zone DMA"; in buddyinfo, the counts follow in the same line.
//
// zoneinfo has a node's values before its first zone's values, and the values of each CPU
// after each zone's values. Columns that do not apply to a row are NULL.
#include <stdio.h>

#include "common/str.h"
#include "converter/import/files/proc_snapshot.h"

#define ORDERS_MAX     64 // of free blocks; the kernel has 11
#define PROTECTION_MAX 16

// Parses "Node 0, zone   DMA", and moves `line` past it.
static bool zone_take(struct span *line, int64_t *ret_node, struct span *ret_zone)
{
    if (!text_is(word_take(line), "Node"))
        return false;
    struct span node = word_take(line);
    if (node.at == node.end || node.end[-1] != ',')
        return false;
    node.end--;
    int64_t number;
    if (!proc_number(node, &number) || !text_is(word_take(line), "zone"))
        return false;
    struct span zone = word_take(line);
    if (!proc_name_fits(zone))
        return false;
    *ret_node = number;
    *ret_zone = zone;
    return true;
}

static bool zones_recognise(const uint8_t *bytes, size_t size, bool with_counts)
{
    struct lines lines = lines_over(bytes, size);
    struct span line, zone;
    int64_t node;
    return lines_next(&lines, &line) && zone_take(&line, &node, &zone) &&
           (line.at < line.end) == with_counts;
}

// -- zoneinfo --

struct zoneinfo {
    int64_t node, cpu; // -1: none yet
    struct span zone;
    bool per_node;
};

static void zone_value(struct proc_import *import, struct span name, int64_t value)
{
    const struct zoneinfo *at = import->state;
    rows_int(&import->rows, COL_proc_zoneinfo_node, at->node);
    if (!at->per_node)
        proc_text(import, COL_proc_zoneinfo_zone, at->zone);
    if (at->cpu >= 0)
        rows_int(&import->rows, COL_proc_zoneinfo_cpu, at->cpu);
    proc_text(import, COL_proc_zoneinfo_name, name);
    rows_int(&import->rows, COL_proc_zoneinfo_value, value);
    proc_row(import);
}

// Reads a list like "(0, 3019, 24090)": a row for each number, with the names protection_0,
// protection_1 and so on.
static const char *protection_read(struct proc_import *import, struct span list)
{
    char name[32];
    int64_t values[PROTECTION_MAX];
    size_t n = 0;
    if (text_size(list) < 2 || *list.at != '(' || list.end[-1] != ')')
        return "no list after protection";
    list.at++;
    list.end--;
    while (list.at < list.end) {
        struct span word = word_take(&list);
        if (list.at < list.end && word.end[-1] == ',')
            word.end--;
        if (n == PROTECTION_MAX || !proc_number(word, &values[n++]))
            return "no list of numbers after protection";
    }
    for (size_t i = 0; i < n; i++) {
        int name_size = snprintf(name, sizeof(name), "protection_%zu", i);
        zone_value(import, (struct span){name, name + name_size}, values[i]);
    }
    return NULL;
}

// Returns true for a line without a number that starts a part.
static bool part_begins(struct zoneinfo *at, struct span line)
{
    if (text_is(line, "per-node stats"))
        at->per_node = true;
    else if (text_is(line, "pagesets"))
        at->cpu = -1;
    else
        return false;
    return true;
}

static const char *zoneinfo_line(struct proc_import *import, struct span line)
{
    struct zoneinfo *at = import->state;
    struct span rest = line, zone;
    int64_t node, value;
    if (zone_take(&rest, &node, &zone) && rest.at == rest.end) {
        *at = (struct zoneinfo){.node = node, .cpu = -1, .zone = zone};
        return NULL;
    }
    if (at->node < 0)
        return "no node and zone in front";
    if (part_begins(at, line))
        return NULL;
    rest = line;
    struct span name = word_take(&rest);
    if (text_is(name, "pages")) { // "pages free 3840"
        at->per_node = false;
        name = word_take(&rest);
    }
    if (text_is(name, "protection:"))
        return protection_read(import, rest);
    while (rest.at < rest.end && !proc_number(rest, &value)) // "vm stats threshold: 4"
        name.end = word_take(&rest).end;
    if (rest.at == rest.end)
        return "no number";
    if (text_size(name) && name.end[-1] == ':')
        name.end--;
    if (!proc_name_fits(name))
        return "no name";
    if (text_is(name, "cpu")) {
        at->cpu = value;
        return NULL;
    }
    if (text_is(name, "node_unreclaimable") || text_is(name, "all_unreclaimable") ||
        text_is(name, "start_pfn"))
        at->cpu = -1;
    zone_value(import, name, value);
    return NULL;
}

static bool zoneinfo_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    return zones_recognise(bytes, size, false);
}

static int zoneinfo_import(struct file_import *in, const uint8_t *bytes, size_t size,
                           struct err *err)
{
    struct zoneinfo at = {.node = -1, .cpu = -1};
    return proc_lines_import(in, bytes, size,
                             &(struct proc_lines){TABLE_proc_zoneinfo,
                                                  COL_proc_zoneinfo_proc_snapshot_id,
                                                  zoneinfo_line},
                             &at, err);
}

const struct file_format file_format_proc_zoneinfo = {
    .name = "/proc/zoneinfo",
    .option = "proc-zoneinfo",
    .recognise = zoneinfo_recognise,
    .import = zoneinfo_import,
    .of_moment = true,
};

// -- buddyinfo --

static const char *buddyinfo_line(struct proc_import *import, struct span line)
{
    struct span zone;
    int64_t node, counts[ORDERS_MAX];
    size_t n = 0;
    if (!zone_take(&line, &node, &zone))
        return "no node and zone";
    while (line.at < line.end) {
        if (n == ORDERS_MAX || !proc_number(word_take(&line), &counts[n]) ||
            counts[n] > INT64_MAX >> n)
            return "no counts of free blocks";
        n++;
    }
    for (size_t order = 0; order < n; order++) {
        rows_int(&import->rows, COL_proc_buddyinfo_node, node);
        proc_text(import, COL_proc_buddyinfo_zone, zone);
        rows_int(&import->rows, COL_proc_buddyinfo_page_order, (int64_t)order);
        rows_int(&import->rows, COL_proc_buddyinfo_n_free, counts[order]);
        rows_int(&import->rows, COL_proc_buddyinfo_n_pages, counts[order] << order);
        proc_row(import);
    }
    return NULL;
}

static bool buddyinfo_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    return zones_recognise(bytes, size, true);
}

const struct file_format file_format_proc_buddyinfo = {
    .name = "/proc/buddyinfo",
    .option = "proc-buddyinfo",
    .recognise = buddyinfo_recognise,
    .lines = {TABLE_proc_buddyinfo, COL_proc_buddyinfo_proc_snapshot_id, buddyinfo_line},
    .of_moment = true,
};
