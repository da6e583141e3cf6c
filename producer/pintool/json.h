// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON with commas and indentation. Bytes that are not UTF-8 become \udc80 to \udcff, which
// Python's "surrogateescape" reverses.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
    FILE *out; // borrowed
    unsigned depth;
    bool compact;              // one line
    bool more[JSON_DEPTH_MAX]; // this object or array is not empty
};

// `key` is NULL in arrays and for the outermost value.
void json_object_begin(struct json *json, const char *key);
void json_object_end(struct json *json);
void json_array_begin(struct json *json, const char *key);
void json_array_end(struct json *json);
void json_text(struct json *json, const char *key, const char *text); // NULL: null
void json_u64(struct json *json, const char *key, uint64_t value);
void json_double(struct json *json, const char *key, double value); // not finite: null
void json_null(struct json *json, const char *key);

// Writes {`offset_key`: ..., "bytes": ...} into an array.
void json_range(struct json *json, const char *offset_key, uint64_t offset, uint64_t bytes);

// Writes the object of a pinlist.
struct pinlist;
void json_pinlist(struct json *json, const char *key, const char *path, const struct pinlist *list);
