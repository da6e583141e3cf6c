// SPDX-License-Identifier: Apache-2.0
//
// Functions for the files that create objects.
#pragma once

#include "converter/perfetto_sql/engine_state.h"

#define PART(part) (int)(part).size, (part).text // for %.*s

// Returns whether the part is `word`, without regard to case.
bool part_is(struct sql_part part, const char *word);
// Adds a part of the rope's text.
void rope_add_part(struct sql_rope *ret, const struct sql_rope *rope, struct sql_part part);

// Sets engine->here, the place of errors without another place, to the part. Returns the old value.
struct sql_piece here_move(struct sql_engine *engine, const struct sql_rope *rope,
                           struct sql_part part);

// Refuses fields whose type does not exist.
int types_check(struct sql_engine *engine, const struct sql_rope *rope,
                const struct sql_field_vec *fields);

// The kind of object that SQL created under a name.
enum relation { RELATION_NONE, RELATION_TABLE, RELATION_VIEW, RELATION_FUNCTION };

// Finds the kind of the object called `name`. Returns 0 or a negative errno.
int relation_kind(struct sql_engine *engine, struct sql_part name, enum relation *ret);
// Sets the error: the name belongs to an object of another kind. Returns a negative errno.
int relation_is_other(struct sql_engine *engine, struct sql_part name, enum relation found);

// create_function.c
int function_create(struct sql_engine *engine, const struct sql_rope *rope,
                    const struct sql_definition *definition);
