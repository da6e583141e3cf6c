// SPDX-License-Identifier: Apache-2.0
//
// Values of JSON as args.
#pragma once

#include "converter/import/args.h"
#include "converter/import/import.h"

// Appends the values of a JSON object: {"a": [5]} becomes args.a[0]. Values after wrong syntax, and
// values beyond the limits of an arg_writer, are left out; stats counts the rows with left-out
// values. Texts live as long as cells do. `before`: args of the row, whose lists continue; NULL:
// none.
void json_values_read(struct import *im, const struct wire_field *json,
                      const struct arg_vec *before, struct arg_vec *args);

// Calls `take` for each member of the object that is not a container. False: the syntax is wrong.
struct json_token;
bool json_members_read(const struct wire_field *json,
                       void (*take)(void *userdata, const struct json_token *key,
                                    const struct json_token *value),
                       void *userdata);
