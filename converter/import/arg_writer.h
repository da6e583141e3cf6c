// SPDX-License-Identifier: Apache-2.0
//
// Args with keys made of the names that they are nested in. Nesting, number and size are limited,
// because a trace can claim any.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "common/text.h"
#include "converter/import/import.h"

#define ARG_DEPTH_MAX 16

struct arg_writer {
    struct import *im; // borrowed, as are the next two
    const struct generation *state;
    struct arg_vec *args;
    struct strbuf key, flat_key; // of what is at hand; owned
    size_t key_bytes;            // of all args so far
    struct map64 lists;          // hash of a list's key -> its number of elements
    unsigned depth;
    bool is_cut; // some are left out
    bool failed; // something is wrong with them; some are left out
};

struct arg_place {
    size_t key_size, flat_size;
};

// Goes into the member `name` of what is at hand, or into an element; arg_leave() goes back. False:
// too deep, and there is nothing to leave.
bool arg_enter(struct arg_writer *writer, struct text name, struct arg_place *ret);
bool arg_enter_element(struct arg_writer *writer, size_t index, struct arg_place *ret);
void arg_leave(struct arg_writer *writer, struct arg_place place);

// How many elements the list at hand has: it goes on where its name comes again, unless that is
// very long.
uint64_t arg_list_size(const struct arg_writer *writer);
void arg_list_resize(struct arg_writer *writer, uint64_t n_elements);

// The value of what is at hand. Its text, if it is one, must live as cells do.
void arg_put(struct arg_writer *writer, struct arg value);
void arg_put_text(struct arg_writer *writer, const void *text, size_t size);
// Appends the bytes as base64.
void base64_add(struct strbuf *text, const void *bytes, size_t size);
void arg_put_base64(struct arg_writer *writer, const void *bytes, size_t size);

void arg_writer_done(struct arg_writer *writer);

// The text of an interned string (field 2 of all of them), in strings. STRSET_NONE: it has none, or
// memory is out.
uint32_t interned_text_id(struct import *im, struct interned *entry);

// The text behind `iid` in a table of interned strings. False: the trace does not have it.
bool interned_text(const struct generation *state, uint32_t table, uint64_t iid,
                   struct wire_field *ret);

// Writes the fields of a message of a type (see descriptors.h) as members of what is at hand. Of
// the outermost message only those that `wanted` takes (NULL: all) and extensions.
struct described_field;
void message_args_read(struct arg_writer *writer, uint32_t type, struct wire_reader message,
                       bool (*wanted)(uint32_t number));

// The same for the value of a DebugAnnotation, whose name is entered already.
void debug_value_read(struct arg_writer *writer, const struct wire_field *annotation);
// Enters its name first.
void debug_annotation_read(struct arg_writer *writer, const struct wire_field *annotation);
