// SPDX-License-Identifier: Apache-2.0
//
// __intrinsic_cycle_sums_agg(utid, ucpu, dur, freq): an aggregate over the times that threads ran
// (ns), with the processor's frequency (kHz, or NULL). The result is a table as a value: a row for
// each thread on each processor, in order of both. SQL would sort all times for this result. This
// aggregate needs only a few numbers for each pair.
#include <errno.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/map.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

enum column { UTID, UCPU, MILLICYCLES, MEGACYCLES, RUNTIME, MIN_FREQ, MAX_FREQ, AVG_FREQ };

struct sums {
    int64_t utid, ucpu, millicycles, runtime, min_freq, max_freq;
    bool has_freq; // in one of the times
};
VEC_DEFINE(sums_vec, struct sums);

struct cycles {
    struct map64 index_of; // by thread and processor
    struct sums_vec pairs;
};

static void cycles_free(struct cycles *cycles)
{
    map64_done(&cycles->index_of);
    sums_vec_done(&cycles->pairs);
    free(cycles);
}

// Returns the sums of the pair, or NULL if memory ran out.
static struct sums *sums_get(struct cycles *cycles, uint32_t utid, uint32_t ucpu)
{
    bool is_new;
    uint64_t *index =
        map64_get_or_add(&cycles->index_of, (uint64_t)utid << 32 | ucpu, cycles->pairs.n, &is_new);
    struct sums sums = {.utid = utid, .ucpu = ucpu};
    if (!index || (is_new && sums_vec_push(&cycles->pairs, sums) < 0))
        return NULL;
    return &cycles->pairs.items[*index];
}

// Returns 0, or -EOVERFLOW.
static int sums_add(struct sums *sums, int64_t dur, sqlite3_value *freq_value)
{
    if (__builtin_add_overflow(sums->runtime, dur, &sums->runtime))
        return -EOVERFLOW;
    if (sqlite3_value_type(freq_value) == SQLITE_NULL)
        return 0;
    int64_t freq = sqlite3_value_int64(freq_value), product;
    if (__builtin_mul_overflow(dur, freq, &product) ||
        __builtin_add_overflow(sums->millicycles, product / 1000, &sums->millicycles))
        return -EOVERFLOW;
    if (!sums->has_freq || freq < sums->min_freq)
        sums->min_freq = freq;
    if (!sums->has_freq || freq > sums->max_freq)
        sums->max_freq = freq;
    sums->has_freq = true;
    return 0;
}

static void step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct cycles *cycles = aggregate_get(context, sizeof(*cycles));
    int64_t utid = sqlite3_value_int64(argv[0]), ucpu = sqlite3_value_int64(argv[1]);
    if (!cycles)
        return;
    if (utid < 0 || utid > UINT32_MAX || ucpu < 0 || ucpu > UINT32_MAX) {
        sqlite3_result_error(context, "cycle sums: utid and ucpu have at most 32 bits", -1);
        return;
    }
    struct sums *sums = sums_get(cycles, (uint32_t)utid, (uint32_t)ucpu);
    if (!sums)
        sqlite3_result_error_nomem(context);
    else if (sums_add(sums, sqlite3_value_int64(argv[2]), argv[3]) < 0)
        sqlite3_result_error(context, "cycle sums: the numbers do not fit 64 bits", -1);
}

static int by_thread(const void *a, const void *b)
{
    const struct sums *x = a, *y = b;
    if (x->utid != y->utid)
        return x->utid < y->utid ? -1 : 1;
    return x->ucpu < y->ucpu ? -1 : x->ucpu > y->ucpu;
}

static void row_add(struct value_table *table, const struct sums *sums)
{
    value_table_add_int(table, UTID, sums->utid);
    value_table_add_int(table, UCPU, sums->ucpu);
    value_table_add_int(table, RUNTIME, sums->runtime);
    if (sums->has_freq) {
        value_table_add_int(table, MILLICYCLES, sums->millicycles);
        value_table_add_int(table, MEGACYCLES, (int64_t)((double)sums->millicycles / 1e9));
        value_table_add_int(table, MIN_FREQ, sums->min_freq);
        value_table_add_int(table, MAX_FREQ, sums->max_freq);
    } else {
        for (int column = MILLICYCLES; column <= MAX_FREQ; column++)
            if (column != RUNTIME)
                value_table_add_null(table, column);
    }
    if (sums->has_freq && sums->runtime / 1000)
        value_table_add_int(table, AVG_FREQ, sums->millicycles / (sums->runtime / 1000));
    else
        value_table_add_null(table, AVG_FREQ);
    table->n_rows++;
}

static void final(sqlite3_context *context)
{
    static const char *const names[] = {
        [UTID] = "utid",         [UCPU] = "ucpu",         [MILLICYCLES] = "millicycles",
        [RUNTIME] = "runtime",   [MIN_FREQ] = "min_freq", [MEGACYCLES] = "megacycles",
        [MAX_FREQ] = "max_freq", [AVG_FREQ] = "avg_freq"};
    struct cycles *cycles = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    if (cycles) {
        if (cycles->pairs.n)
            qsort(cycles->pairs.items, cycles->pairs.n, sizeof(*cycles->pairs.items), by_thread);
        vec_foreach(&cycles->pairs, sums)
            if (table)
                row_add(table, sums);
        cycles_free(cycles);
    }
    value_table_result(context, table);
}

int cycle_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_cycle_sums_agg", 4, NULL, step, final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
