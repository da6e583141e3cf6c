// SPDX-License-Identifier: Apache-2.0
//
// Functions of numbers. They return NULL for a value that is not a number, and if the result is
// undefined.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/elements.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

static bool is_number(sqlite3_value *value)
{
    int type = sqlite3_value_numeric_type(value);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static void natural_logarithm(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (is_number(argv[0]) && sqlite3_value_double(argv[0]) > 0)
        sqlite3_result_double(context, log(sqlite3_value_double(argv[0])));
}

static void exponential(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (is_number(argv[0]))
        sqlite3_result_double(context, exp(sqlite3_value_double(argv[0])));
}

// Makes the square root the result. For a negative number, the root is NaN, which SQLite makes
// NULL.
static void square_root(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (is_number(argv[0]))
        sqlite3_result_double(context, sqrt(sqlite3_value_double(argv[0])));
}

int math_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"ln", 1, natural_logarithm, IS_INTRINSIC},
        {"exp", 1, exponential, IS_INTRINSIC},
        {"sqrt", 1, square_root, IS_INTRINSIC},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
