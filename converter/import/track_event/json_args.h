// SPDX-License-Identifier: Apache-2.0
//
// JSON values as args: members and elements get keys like the members and elements of other
// annotations.
#pragma once

#include <stddef.h>

struct arg_writer;

// Writes the values of `text` under the current key. Invalid JSON, and a text larger than JSON_MAX,
// become one arg of type ARG_JSON.
void json_args_read(struct arg_writer *writer, const void *text, size_t size);

#define JSON_MAX ((size_t)1 << 20)
