// SPDX-License-Identifier: Apache-2.0
//
// Parts that the files which create objects share.
#pragma once

#include "converter/perfetto_sql/engine_state.h"

#define PART(part) (int)(part).size, (part).text // for %.*s

// Compares without regard to case.
bool part_is(struct sql_part part, const char *word);
// Adds a part of the rope's text.
void rope_add_part(struct sql_rope *ret, const struct sql_rope *rope, struct sql_part part);

// Errors without a place are at the part from now on. Returns the place before, for engine->here.
struct sql_piece here_move(struct sql_engine *engine, const struct sql_rope *rope,
                           struct sql_part part);

// Refuses fields of a type that does not exist.
int types_check(struct sql_engine *engine, const struct sql_rope *rope,
                const struct sql_field_vec *fields);

// The kind of object that SQL created under a name.
enum relation { RELATION_NONE, RELATION_TABLE, RELATION_VIEW, RELATION_FUNCTION };

// 0 or a negative errno.
int relation_kind(struct sql_engine *engine, struct sql_part name, enum relation *ret);
// Fails: the name belongs to an object of another kind.
int relation_is_other(struct sql_engine *engine, struct sql_part name, enum relation found);

// create_function.c
int function_create(struct sql_engine *engine, const struct sql_rope *rope,
                    const struct sql_definition *definition);
