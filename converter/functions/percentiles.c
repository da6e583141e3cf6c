// SPDX-License-Identifier: Apache-2.0
//
// PERCENTILE(value, p) with p from 0 to 100, PERCENTILE_CONT and PERCENTILE_DISC with p from 0 to
// 1, and MEDIAN(value). Newer versions of the sqlite3 shell have them, too. NULL does not count as
// a value. The result is interpolated between two values; only the result of PERCENTILE_DISC is
// always one of the values.
#include <math.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

struct kind {
    const char *name;
    double whole; // the largest p: it selects the largest value; 0: no argument p, the median
    bool is_discrete;
};

static const struct kind kinds[] = {
    {"percentile", 100, false},
    {"percentile_cont", 1, false},
    {"percentile_disc", 1, true},
    {"median", 0, false},
};

struct percentile {
    struct double_vec values; // owned
    double p;                 // 0 to 1
    bool has_p;
};

static void fail(sqlite3_context *context, const struct kind *kind, const char *why)
{
    char *text = sqlite3_mprintf("%s: %s", kind->name, why);
    sqlite3_result_error(context, text ? text : "out of memory", -1);
    sqlite3_free(text);
}

// Reads p, which must be equal in all rows.
static bool p_take(sqlite3_context *context, struct percentile *percentile, const struct kind *kind,
                   sqlite3_value *value)
{
    int type = sqlite3_value_numeric_type(value);
    double p = sqlite3_value_double(value) / kind->whole;
    if ((type != SQLITE_INTEGER && type != SQLITE_FLOAT) || !(p >= 0 && p <= 1)) {
        fail(context, kind,
             kind->whole > 1 ? "the second argument must be a number from 0 to 100"
                             : "the second argument must be a number from 0 to 1");
        return false;
    }
    if (percentile->has_p && fabs(percentile->p - p) > 1e-9) {
        fail(context, kind, "the second argument must be the same for all rows");
        return false;
    }
    percentile->p = p;
    percentile->has_p = true;
    return true;
}

static void step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const struct kind *kind = sqlite3_user_data(context);
    struct percentile *percentile = sqlite3_aggregate_context(context, sizeof(*percentile));
    int type = sqlite3_value_type(argv[0]);
    if (!percentile) {
        sqlite3_result_error_nomem(context);
        return;
    }
    if (argc > 1 && !p_take(context, percentile, kind, argv[1]))
        return;
    if (argc == 1)
        percentile->p = 0.5;
    if (type == SQLITE_NULL)
        return;
    double value = sqlite3_value_double(argv[0]);
    if ((type != SQLITE_INTEGER && type != SQLITE_FLOAT) || isnan(value) || isinf(value))
        fail(context, kind, "a value is not a finite number");
    else if (double_vec_push(&percentile->values, value) < 0)
        sqlite3_result_error_nomem(context);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void final(sqlite3_context *context)
{
    const struct kind *kind = sqlite3_user_data(context);
    struct percentile *percentile = sqlite3_aggregate_context(context, 0);
    size_t n = percentile ? percentile->values.n : 0;
    if (n == 0)
        return;
    double *values = percentile->values.items;
    qsort(values, n, sizeof(*values), by_size);
    double at = percentile->p * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    if (kind->is_discrete)
        sqlite3_result_double(context, values[low]);
    else
        sqlite3_result_double(context,
                              values[low] + (values[high] - values[low]) * (at - (double)low));
    double_vec_done(&percentile->values);
}

int percentile_functions_register(sqlite3 *handle)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(kinds) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(handle, kinds[i].name, kinds[i].whole > 0 ? 2 : 1,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          (void *)(uintptr_t)&kinds[i], NULL, step, final, NULL);
    return code;
}
