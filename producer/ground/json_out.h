// SPDX-License-Identifier: Apache-2.0
//
// JSON for scripts, appended to a text. Strings can come from anywhere: bytes that are not UTF-8
// become U+FFFD.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"

void json_out_text(struct strbuf *out, const char *text); // with its quotes
// Appends `"key":`, with a comma in front unless the key is the first of its object.
void json_out_key(struct strbuf *out, const char *key);

// Each function appends a member of an object. A NULL string and an unknown number are left out.
void json_out_string(struct strbuf *out, const char *key, const char *value);
void json_out_number(struct strbuf *out, const char *key, bool known, int64_t value);
void json_out_bool(struct strbuf *out, const char *key, bool value);
void json_out_strings(struct strbuf *out, const char *key, char *const *values, size_t n);
