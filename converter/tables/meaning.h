// SPDX-License-Identifier: Apache-2.0
//
// The meaning of the numbers in a column: ids of rows, times, machines, or plain numbers. Joins use
// the meanings to shift ids. The database also stores them, in its description of itself.
#pragma once

#include <stdbool.h>

#include "converter/tables/schema.h"

// The meaning of a column's number, which decides how a join changes the number.
enum column_sense {
    SENSE_PLAIN,   // a plain number, unchanged
    SENSE_ID,      // id of the row
    SENSE_ROW,     // id of a row of the table `of`
    SENSE_SPACE,   // shared by rows that belong together; numbered in the table `of`
    SENSE_MACHINE, // a machine
    SENSE_UCPU,    // a processor, see CPUS_MAX
    SENSE_TIME,    // time of the trace's clock
    SENSE_TRACE,   // a trace
};

struct column_meaning {
    const char *table; // NULL: of any table
    const char *column;
    enum column_sense sense;
    enum table_id of;
};

// Returns the meaning of a column. A column that is not in the list is SENSE_ID if it is the key,
// else SENSE_PLAIN.
struct column_meaning column_meaning_of(enum table_id table, const struct column_def *column);

// Returns true if the column's name could be that of an id, and the list does not have the column.
bool column_lacks_meaning(enum table_id table, const struct column_def *column);

// Returns the public name of the table to whose rows the numbers of a column refer, or NULL.
// *ret_key is the column of that table. `def` is the table of the column; NULL: the column belongs
// to a view, and only its name counts.
const char *column_refers_to(const struct table_def *def, const char *column, const char **ret_key);
