// SPDX-License-Identifier: Apache-2.0
//
// JSON as it is written: commas and indentation come by themselves. Names that are no UTF-8 keep
// their bytes as \udc80 to \udcff, which Python's "surrogateescape" turns back.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
    FILE *out; // borrowed
    unsigned depth;
    bool compact;              // one line
    bool more[JSON_DEPTH_MAX]; // something stands in this object or array
};

// `key` is NULL in arrays and for the outermost value.
void json_object_begin(struct json *json, const char *key);
void json_object_end(struct json *json);
void json_array_begin(struct json *json, const char *key);
void json_array_end(struct json *json);
void json_text(struct json *json, const char *key, const char *text);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_double(struct json *json, const char *key, double value); // not finite: null
void json_null(struct json *json, const char *key);
