// SPDX-License-Identifier: Apache-2.0
//
// Values in JSON as args: members and elements get keys as those of any other annotation do.
#pragma once

#include <stddef.h>

struct arg_writer;

// Writes the values of `text` as what is at hand. Text that is no JSON, or more than JSON_MAX, is
// one arg of that type.
void json_args_read(struct arg_writer *writer, const void *text, size_t size);

#define JSON_MAX ((size_t)1 << 20)
