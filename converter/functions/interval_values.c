// SPDX-License-Identifier: Apache-2.0
//
// Sets of intervals. __intrinsic_interval_tree_intervals_agg collects a set, by partition, and
// __intrinsic_interval_intersect intersects several sets. __intrinsic_interval_set_agg takes rows
// in any order. This saves a sort by SQLite: rows of a trace are nearly sorted, and only a few
// numbers of each row are sorted here. __intrinsic_interval_create makes intervals from begin times
// and end times, __intrinsic_counter_intervals from the samples of counters.
//
// An intersection searches the larger set, which is sorted by start, for each interval of the
// smaller set. The cost is n log m, plus the intervals that each search visits. A search begins at
// the first interval that can still matter, which the running maximum of the ends gives.
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define TABLES_MAX     15
#define PARTITIONS_MAX 4

struct interval {
    int64_t start, end;
    int64_t id;
};
VEC_DEFINE(interval_vec, struct interval);

// The intervals of one combination of values.
struct partition {
    uint64_t hash;
    sqlite3_value *values[PARTITIONS_MAX]; // owned
    struct interval_vec intervals;         // by start
};
VEC_DEFINE(partition_vec, struct partition);

struct interval_set {
    int n_values;
    struct partition_vec partitions; // in the order of their first intervals
    uint32_t *slots;                 // owned; index + 1; open addressing
    size_t n_slots;                  // a power of two
    int64_t last_start;
    bool is_unsorted;
    bool failed;
};

static void set_free(void *userdata)
{
    struct interval_set *set = userdata;
    if (!set)
        return;
    vec_foreach(&set->partitions, partition) {
        for (int i = 0; i < set->n_values; i++)
            sqlite3_value_free(partition->values[i]);
        interval_vec_done(&partition->intervals);
    }
    partition_vec_done(&set->partitions);
    free(set->slots);
    free(set);
}

static uint64_t value_hash(uint64_t hash, sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    hash = table_hash_u64(hash + (uint64_t)type);
    if (type == SQLITE_INTEGER)
        return table_hash_u64(hash ^ (uint64_t)sqlite3_value_int64(value));
    if (type == SQLITE_FLOAT) {
        double number = sqlite3_value_double(value);
        return hash ^ table_hash_bytes(&number, sizeof(number));
    }
    if (type == SQLITE_NULL)
        return hash;
    const void *bytes = sqlite3_value_blob(value);
    return hash ^ table_hash_bytes(bytes, (size_t)sqlite3_value_bytes(value));
}

static bool values_equal(sqlite3_value *a, sqlite3_value *b)
{
    int type = sqlite3_value_type(a);
    if (type != sqlite3_value_type(b))
        return false;
    if (type == SQLITE_INTEGER)
        return sqlite3_value_int64(a) == sqlite3_value_int64(b);
    if (type == SQLITE_FLOAT)
        return sqlite3_value_double(a) == sqlite3_value_double(b);
    if (type == SQLITE_NULL)
        return true;
    int n = sqlite3_value_bytes(a);
    return n == sqlite3_value_bytes(b) &&
           (n == 0 || memcmp(sqlite3_value_blob(a), sqlite3_value_blob(b), (size_t)n) == 0);
}

static bool partition_is(const struct interval_set *set, const struct partition *partition,
                         uint64_t hash, sqlite3_value *const *values, int step)
{
    if (partition->hash != hash)
        return false;
    for (int i = 0; i < set->n_values; i++)
        if (!values_equal(partition->values[i], values[i * step]))
            return false;
    return true;
}

// Returns the slot of the partition with these values, or the free slot for this partition.
static uint32_t *slot_find(const struct interval_set *set, uint64_t hash,
                           sqlite3_value *const *values, int step)
{
    size_t i = (size_t)hash & (set->n_slots - 1);
    while (set->slots[i] &&
           !partition_is(set, &set->partitions.items[set->slots[i] - 1], hash, values, step))
        i = (i + 1) & (set->n_slots - 1);
    return &set->slots[i];
}

// Enters the partitions into `n` free slots.
static void slots_fill(const struct interval_set *set, uint32_t *slots, size_t n)
{
    for (size_t p = 0; p < set->partitions.n; p++) {
        size_t i = (size_t)set->partitions.items[p].hash & (n - 1);
        while (slots[i])
            i = (i + 1) & (n - 1);
        slots[i] = (uint32_t)p + 1;
    }
}

static bool slots_grow(struct interval_set *set)
{
    size_t n = set->n_slots ? set->n_slots * 2 : 16;
    uint32_t *slots = calloc(n, sizeof(*slots));
    if (!slots)
        return false;
    slots_fill(set, slots, n);
    free(set->slots);
    set->slots = slots;
    set->n_slots = n;
    return true;
}

static uint64_t values_hash(sqlite3_value *const *values, int n, int step)
{
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash = value_hash(hash, values[i * step]);
    return hash;
}

// Returns the partition of the values, which are `step` apart. Adds a missing partition. Returns
// NULL if memory ran out.
static struct partition *partition_get(struct interval_set *set, sqlite3_value *const *values,
                                       int step)
{
    uint64_t hash = values_hash(values, set->n_values, step);
    if (set->partitions.n * 2 >= set->n_slots && !slots_grow(set))
        return NULL;
    uint32_t *slot = slot_find(set, hash, values, step);
    if (*slot)
        return &set->partitions.items[*slot - 1];
    struct partition partition = {.hash = hash};
    if (partition_vec_push(&set->partitions, partition) < 0)
        return NULL;
    struct partition *made = &set->partitions.items[set->partitions.n - 1];
    for (int i = 0; i < set->n_values; i++)
        set->failed |= !(made->values[i] = sqlite3_value_dup(values[i * step]));
    *slot = (uint32_t)set->partitions.n;
    return made;
}

// SQL arguments: (id, ts, dur[, 'name', value]...)
static void interval_take(sqlite3_context *context, int argc, sqlite3_value **argv, bool any_order)
{
    struct interval_set *set = aggregate_get(context, sizeof(*set));
    if (!set)
        return;
    if (argc < 3 || (argc - 3) % 2 || (argc - 3) / 2 > PARTITIONS_MAX) {
        sqlite3_result_error(context,
                             "interval intersect: id, ts, dur and up to four names and values of "
                             "partitions are expected",
                             -1);
        return;
    }
    int64_t start = sqlite3_value_int64(argv[1]), dur = sqlite3_value_int64(argv[2]);
    set->is_unsorted |= start < set->last_start;
    const char *why = start < 0 ? "interval intersect: ts must not be negative"
                      : set->is_unsorted && !any_order
                          ? "interval intersect: the intervals must be sorted by ts"
                      : dur < 0 ? "interval intersect: dur must not be negative"
                                : NULL;
    if (why) {
        sqlite3_result_error(context, why, -1);
        return;
    }
    set->n_values = (argc - 3) / 2;
    set->last_start = start;
    struct partition *partition = partition_get(set, argv + (argc > 4 ? 4 : 0), 2);
    struct interval interval = {start, dur > INT64_MAX - start ? INT64_MAX : start + dur,
                                sqlite3_value_int64(argv[0])};
    if (!partition || set->failed || interval_vec_push(&partition->intervals, interval) < 0)
        sqlite3_result_error_nomem(context);
}

static void intervals_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    interval_take(context, argc, argv, false);
}

static void any_intervals_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    interval_take(context, argc, argv, true);
}

// Merges the sorted runs [begin, middle) and [middle, end) of `from` into `to`.
static void runs_merge(const struct interval *from, struct interval *to, size_t begin,
                       size_t middle, size_t end)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++)
        to[i] = b == end || (a < middle && from[a].start <= from[b].start) ? from[a++] : from[b++];
}

// Sorts by start. Intervals with the same start keep their order.
static bool intervals_sort(struct interval_vec *intervals)
{
    size_t n = intervals->n, i = 1;
    struct interval *from = intervals->items;
    while (i < n && from[i - 1].start <= from[i].start)
        i++;
    if (i >= n)
        return true;
    struct interval *spare = malloc(n * sizeof(*spare)), *to = spare;
    for (size_t width = 1; spare && width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = n - begin < width ? n : begin + width;
            runs_merge(from, to, begin, middle, n - middle < width ? n : middle + width);
        }
        struct interval *merged = to;
        to = from;
        from = merged;
    }
    if (spare && from == spare)
        memcpy(intervals->items, spare, n * sizeof(*spare));
    free(spare);
    return spare;
}

static int by_first_start(const void *a, const void *b)
{
    int64_t x = ((const struct partition *)a)->intervals.items->start;
    int64_t y = ((const struct partition *)b)->intervals.items->start;
    return x < y ? -1 : x > y;
}

// Brings the set into the order that it would have if the rows had come sorted.
static bool set_sort(struct interval_set *set)
{
    vec_foreach(&set->partitions, partition)
        if (!intervals_sort(&partition->intervals))
            return false;
    qsort(set->partitions.items, set->partitions.n, sizeof(*set->partitions.items), by_first_start);
    memset(set->slots, 0, set->n_slots * sizeof(*set->slots));
    slots_fill(set, set->slots, set->n_slots);
    return true;
}

static void intervals_final(sqlite3_context *context)
{
    struct interval_set *set = aggregate_take(context);
    if (set && set->is_unsorted && !set_sort(set)) {
        set_free(set);
        sqlite3_result_error_nomem(context);
    } else if (set) {
        sqlite3_result_pointer(context, set, VALUE_INTERVALS, set_free);
    }
}

// A row of the intersection of the first tables: an interval, and the ids of its parts.
struct common {
    int64_t start, end;
    int64_t ids[TABLES_MAX];
};
VEC_DEFINE(common_vec, struct common);

// Adds the time that `a` and `b` have in common. An instant belongs to the interval that it lies
// in, at its start, but not at its end.
static int common_add(struct common_vec *ret, const struct common *a, const struct interval *b,
                      int table)
{
    int64_t start = a->start > b->start ? a->start : b->start;
    int64_t end = a->end < b->end ? a->end : b->end;
    bool a_instant = a->start == a->end, b_instant = b->start == b->end, meets;
    if (a_instant && b_instant)
        meets = a->start == b->start;
    else if (a_instant)
        meets = b->start <= a->start && a->start < b->end;
    else if (b_instant)
        meets = a->start <= b->start && b->start < a->end;
    else
        meets = start < end;
    if (!meets)
        return 0;
    struct common common = *a;
    common.start = start;
    common.end = end;
    common.ids[table] = b->id;
    return common_vec_push(ret, common);
}

// Returns the running maximum of the ends. Intervals before the first index whose maximum reaches a
// time all end before this time.
static int64_t *reaches_make(const struct interval_vec *intervals)
{
    int64_t *reaches = malloc(intervals->n * sizeof(*reaches));
    for (size_t i = 0; reaches && i < intervals->n; i++) {
        int64_t end = intervals->items[i].end;
        reaches[i] = i > 0 && reaches[i - 1] > end ? reaches[i - 1] : end;
    }
    return reaches;
}

static size_t first_reaching(const int64_t *reaches, size_t n, int64_t time)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reaches[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int intersect_with(struct common_vec *all, const struct partition *partition, int table)
{
    struct common_vec ret = {0};
    const struct interval_vec *intervals = &partition->intervals;
    int64_t *reaches = reaches_make(intervals);
    int r = reaches ? 0 : -1;
    for (size_t i = 0; i < all->n && r == 0; i++) {
        const struct common *common = &all->items[i];
        for (size_t k = first_reaching(reaches, intervals->n, common->start);
             k < intervals->n && intervals->items[k].start <= common->end && r == 0; k++)
            r = common_add(&ret, common, &intervals->items[k], table);
    }
    free(reaches);
    common_vec_done(all);
    *all = ret;
    return r;
}

// Intersects the partitions of all tables that have the same values. Begins with the smallest
// partition.
static int partition_intersect(struct value_table *table, struct partition *const *parts, int n,
                               int n_values)
{
    struct common_vec all = {0};
    int order[TABLES_MAX], r = 0;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && parts[order[k - 1]]->intervals.n > parts[i]->intervals.n; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    vec_foreach(&parts[order[0]]->intervals, interval) {
        struct common common = {.start = interval->start, .end = interval->end};
        common.ids[order[0]] = interval->id;
        if (r == 0)
            r = common_vec_push(&all, common);
    }
    for (int i = 1; i < n && r == 0; i++)
        r = intersect_with(&all, parts[order[i]], order[i]);
    sqlite3_value *kept[PARTITIONS_MAX] = {NULL};
    for (int i = 0; i < n_values && r == 0; i++)
        r = (kept[i] = value_table_keep(table, parts[0]->values[i])) ? 0 : -1;
    vec_foreach(&all, common) {
        value_table_add_int(table, 0, common->start);
        value_table_add_int(table, 1, common->end - common->start);
        for (int i = 0; i < n; i++)
            value_table_add_int(table, 2 + i, common->ids[i]);
        for (int i = 0; i < n_values; i++)
            value_table_add_value(table, 2 + TABLES_MAX + i, kept[i]);
        table->n_rows++;
    }
    common_vec_done(&all);
    return r;
}

// Reads the names in "(a, b)". Returns their number, or -1 if there are too many.
static int names_read(const char *list, char names[PARTITIONS_MAX][64])
{
    int n = 0;
    while (*(list += strspn(list, "() ,\n\t"))) {
        size_t size = strcspn(list, "() ,\n\t");
        if (n == PARTITIONS_MAX || size >= sizeof(names[0]))
            return -1;
        memcpy(names[n], list, size);
        names[n++][size] = '\0';
        list += size;
    }
    return n;
}

static struct value_table *intersection_new(char names[PARTITIONS_MAX][64], int n_names)
{
    const char *all[2 + TABLES_MAX + PARTITIONS_MAX] = {"ts", "dur"};
    char ids[TABLES_MAX][8];
    for (int i = 0; i < TABLES_MAX; i++) {
        sqlite3_snprintf(sizeof(ids[i]), ids[i], "id_%d", i);
        all[2 + i] = ids[i];
    }
    for (int i = 0; i < n_names; i++)
        all[2 + TABLES_MAX + i] = names[i];
    return value_table_new(2 + TABLES_MAX + n_names, all);
}

// Returns the partition of `set` with the values of another partition, or NULL.
static struct partition *partition_same(const struct interval_set *set,
                                        const struct partition *other)
{
    if (!set->n_slots)
        return NULL;
    uint32_t slot = *slot_find(set, other->hash, other->values, 1);
    return slot ? &set->partitions.items[slot - 1] : NULL;
}

static void sets_intersect(struct value_table *table, struct interval_set *const *sets, int n)
{
    const struct interval_set *least = sets[0];
    for (int i = 1; i < n; i++)
        if (sets[i]->partitions.n < least->partitions.n)
            least = sets[i];
    vec_foreach(&least->partitions, partition) {
        struct partition *parts[TABLES_MAX];
        int found = 0;
        while (found < n && (parts[found] = partition_same(sets[found], partition)))
            found++;
        if (found == n && !table->failed)
            table->failed |= partition_intersect(table, parts, n, least->n_values) < 0;
    }
}

// SQL arguments: (set, ..., '(partition, columns)')
static void interval_intersect(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    char names[PARTITIONS_MAX][64];
    struct interval_set *sets[TABLES_MAX];
    const char *list = argc > 1 ? (const char *)sqlite3_value_text(argv[argc - 1]) : NULL;
    int n = argc - 1, n_names = list ? names_read(list, names) : -1;
    bool is_empty = false, fits = n_names >= 0 && n <= TABLES_MAX;
    for (int i = 0; i < n && fits; i++) {
        sets[i] = sqlite3_value_pointer(argv[i], VALUE_INTERVALS);
        is_empty |= !sets[i];
        fits = !sets[i] || sets[i]->n_values == n_names;
    }
    if (!fits) {
        sqlite3_result_error(context,
                             "interval intersect: up to 15 tables with the same partitions, at "
                             "most four, are expected",
                             -1);
        return;
    }
    struct value_table *table = intersection_new(names, n_names);
    if (table && !is_empty)
        sets_intersect(table, sets, n);
    value_table_result(context, table);
}

// -- sorted times --
static void times_free(void *userdata)
{
    int64_vec_done(userdata);
    free(userdata);
}

static void times_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct int64_vec *times = aggregate_get(context, sizeof(*times));
    int64_t time = sqlite3_value_int64(argv[0]);
    if (times && times->n && times->items[times->n - 1] > time)
        sqlite3_result_error(context, "timestamp set: the times must be sorted", -1);
    else if (times && int64_vec_push(times, time) < 0)
        sqlite3_result_error_nomem(context);
}

static void times_final(sqlite3_context *context)
{
    aggregate_result(context, VALUE_TIMES, times_free);
}

// Makes an interval of each start and the first end after this start.
static void interval_create(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"ts", "dur"};
    const struct int64_vec *starts = sqlite3_value_pointer(argv[0], VALUE_TIMES);
    const struct int64_vec *ends = sqlite3_value_pointer(argv[1], VALUE_TIMES);
    struct value_table *table = value_table_new(2, names);
    size_t end = 0;
    for (size_t i = 0; table && starts && ends && i < starts->n; i++) {
        int64_t start = starts->items[i];
        while (end < ends->n && ends->items[end] <= start)
            end++;
        if (end == ends->n)
            break;
        value_table_add_int(table, 0, start);
        value_table_add_int(table, 1, ends->items[end] - start);
        table->n_rows++;
    }
    value_table_result(context, table);
}

// One sample of a counter.
struct sample {
    int64_t id, ts, track_id;
    double value;
};
VEC_DEFINE(sample_vec, struct sample);

static void samples_free(void *userdata)
{
    sample_vec_done(userdata);
    free(userdata);
}

static void samples_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct sample_vec *samples = aggregate_get(context, sizeof(*samples));
    struct sample sample = {.id = sqlite3_value_int64(argv[0]),
                            .ts = sqlite3_value_int64(argv[1]),
                            .track_id = sqlite3_value_int64(argv[2]),
                            .value = sqlite3_value_double(argv[3])};
    if (samples && samples->n && samples->items[samples->n - 1].ts > sample.ts)
        sqlite3_result_error(context, "counter intervals: the samples must be sorted by ts", -1);
    else if (samples && sample_vec_push(samples, sample) < 0)
        sqlite3_result_error_nomem(context);
}

static void samples_final(sqlite3_context *context)
{
    aggregate_result(context, VALUE_COUNTERS, samples_free);
}

static int by_track(const void *a, const void *b)
{
    const struct sample *x = *(const struct sample *const *)a,
                        *y = *(const struct sample *const *)b;
    if (x->track_id != y->track_id)
        return x->track_id < y->track_id ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void interval_add(struct value_table *table, const struct sample *sample,
                         const struct sample *next, const struct sample *before, int64_t end)
{
    value_table_add_int(table, 0, sample->id);
    value_table_add_int(table, 1, sample->ts);
    value_table_add_int(table, 2, (next ? next->ts : end) - sample->ts);
    value_table_add_int(table, 3, sample->track_id);
    value_table_add_real(table, 4, sample->value);
    if (next)
        value_table_add_real(table, 5, next->value);
    else
        value_table_add_null(table, 5);
    if (before)
        value_table_add_real(table, 6, sample->value - before->value);
    else
        value_table_add_null(table, 6);
    table->n_rows++;
}

// Returns whether a sample can be left out: the two samples before have its value, and the next
// sample does not change the value. A curve of differences needs the first repeat and the last
// repeat.
static bool is_repeated(struct sample *const *samples, size_t n, size_t i)
{
    double value = samples[i]->value;
    return i >= 2 && samples[i - 1]->value == value && samples[i - 2]->value == value &&
           (i + 1 == n || samples[i + 1]->value == value);
}

static void track_add(struct value_table *table, struct sample *const *samples, size_t n,
                      int64_t end)
{
    const struct sample *open = NULL, *before = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_repeated(samples, n, i))
            continue;
        if (open)
            interval_add(table, open, samples[i], before, end);
        before = open;
        open = samples[i];
    }
    if (open)
        interval_add(table, open, NULL, before, end);
}

// SQL arguments: ('leading', end of the trace, samples)
static void counter_intervals(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"id",    "ts",         "dur",        "track_id",
                                        "value", "next_value", "delta_value"};
    const struct sample_vec *samples = sqlite3_value_pointer(argv[2], VALUE_COUNTERS);
    const char *kind = (const char *)sqlite3_value_text(argv[0]);
    if (!kind || sqlite3_stricmp(kind, "leading") != 0) {
        sqlite3_result_error(context, "counter intervals: only 'leading' is known", -1);
        return;
    }
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    size_t n = samples ? samples->n : 0;
    struct sample **sorted = n ? malloc(n * sizeof(*sorted)) : NULL;
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = &samples->items[i];
    if (sorted)
        qsort(sorted, n, sizeof(*sorted), by_track);
    else if (table)
        table->failed = n > 0;
    for (size_t begin = 0, end; sorted && table && begin < n; begin = end) {
        for (end = begin; end < n && sorted[end]->track_id == sorted[begin]->track_id;)
            end++;
        track_add(table, sorted + begin, end - begin, sqlite3_value_int64(argv[1]));
    }
    free(sorted);
    value_table_result(context, table);
}

int interval_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_interval_tree_intervals_agg", -1, NULL, intervals_step, intervals_final},
        {"__intrinsic_interval_set_agg", -1, NULL, any_intervals_step, intervals_final},
        {"__intrinsic_interval_intersect", -1, interval_intersect, NULL, NULL},
        {"__intrinsic_timestamp_set_agg", 1, NULL, times_step, times_final},
        {"__intrinsic_interval_create", 2, interval_create, NULL, NULL},
        {"__intrinsic_counter_per_track_agg", 4, NULL, samples_step, samples_final},
        {"__intrinsic_counter_intervals", 3, counter_intervals, NULL, NULL},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
