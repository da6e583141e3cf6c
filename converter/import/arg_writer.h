// SPDX-License-Identifier: Apache-2.0
//
// Writes nested messages as args. The key of an arg is the path of names to the arg. Depth, number
// and size are limited, because a trace can have any depth, number and size.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "common/text.h"
#include "converter/import/import.h"

#define ARG_DEPTH_MAX 16

struct arg_writer {
    struct import *im; // borrowed, also the next two members
    const struct generation *state;
    struct arg_vec *args;
    struct strbuf key, flat_key; // of the current member; owned
    size_t key_bytes;            // of all args so far
    struct map64 lists;          // hash of a list's key -> its number of elements
    const char *left_out;        // key of a field that the writer leaves out; NULL: none
    unsigned depth;
    bool is_cut; // args are missing
    bool failed; // the message is damaged or not described; args are missing
};

struct arg_place {
    size_t key_size, flat_size;
};

// Enters the member `name`, or the element `index` of a list. arg_leave() returns to the level
// above. False: the nesting is too deep, and arg_leave() must not follow.
bool arg_enter(struct arg_writer *writer, struct text name, struct arg_place *ret);
bool arg_enter_element(struct arg_writer *writer, size_t index, struct arg_place *ret);
void arg_leave(struct arg_writer *writer, struct arg_place place);

// Returns the number of elements of the current list. A list goes on when its key appears again,
// unless the key is very long.
uint64_t arg_list_size(const struct arg_writer *writer);
void arg_list_resize(struct arg_writer *writer, uint64_t n_elements);

// Makes the lists in `args`, the row's earlier args, go on.
void arg_lists_continue(struct arg_writer *writer, const struct arg_vec *args);

// Appends a value under the current key. The value's text must live as long as cells do.
void arg_put(struct arg_writer *writer, struct arg value);
void arg_put_text(struct arg_writer *writer, const void *text, size_t size);
// Appends the bytes as base64.
void base64_add(struct strbuf *text, const void *bytes, size_t size);
void arg_put_base64(struct arg_writer *writer, const void *bytes, size_t size);

void arg_writer_done(struct arg_writer *writer);

// Returns the id in strings of an interned string's text (field 2 of every kind). STRSET_NONE: the
// string has no text, or memory ran out.
uint32_t interned_text_id(struct import *im, struct interned *entry);

// *ret: the text of the interned string `iid`. False: the trace lacks the string.
bool interned_text(const struct generation *state, uint32_t table, uint64_t iid,
                   struct wire_field *ret);

// Writes the fields of a message of `type` (see descriptors.h) as members of the current member. At
// the outermost level, only extensions and the fields that `wanted` accepts (NULL: all).
struct described_field;
void message_args_read(struct arg_writer *writer, uint32_t type, struct wire_reader message,
                       bool (*wanted)(uint32_t number));

// Writes the value of a DebugAnnotation as a member with the annotation's name.
void debug_annotation_read(struct arg_writer *writer, const struct wire_field *annotation);
