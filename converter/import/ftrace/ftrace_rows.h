// SPDX-License-Identifier: Apache-2.0
//
// Rows of ftrace events, which are sets of args with a time: see _arg_set in schema.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/args.h"
#include "converter/tables/database.h"

VEC_DEFINE(key_vec, const char *);

struct row_kind {
    int64_t id;
    struct key_vec keys; // by slot; borrowed
};
VEC_DEFINE(row_kind_vec, struct row_kind);

// All zero has no kinds.
struct ftrace_rows {
    struct database *db; // borrowed
    struct row_kind_vec kinds;
    struct failure *failure; // borrowed
};

// Adds a kind without fields and returns its index. The text must live as long as cells do.
uint32_t ftrace_kind_add(struct ftrace_rows *rows, const char *name, size_t name_size);

// Returns the slot of a field; adds a new field. ARG_SLOTS_MAX: the kind is full.
size_t ftrace_slot_of(struct ftrace_rows *rows, uint32_t kind, const char *key, uint8_t type);

// Adds a row with room for the kind's present slots.
struct cell *ftrace_row_add(struct ftrace_rows *rows, uint32_t kind, int64_t ts, uint32_t ucpu,
                            int64_t utid);

// Sets the cell of a slot to the value of an arg.
void ftrace_row_set(const struct ftrace_rows *rows, struct cell *row, size_t slot,
                    const struct arg *arg);

void ftrace_rows_done(struct ftrace_rows *rows);
