// SPDX-License-Identifier: Apache-2.0
//
// The metadata table: facts about the trace as a whole. Facts are kept until the end, because later
// packets may replace them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"
#include "converter/tables/database.h"

struct fact {
    const char *name; // borrowed, or in the arena
    const char *text; // in the arena; NULL: the value is a number
    size_t size;
    int64_t number;
    uint32_t machine;
    bool multi;   // several rows may have this name
    bool is_made; // made by the converter; has no trace and no machine
};
VEC_DEFINE(fact_vec, struct fact);

// Empty when all members but `failure` are zero.
struct metadata {
    struct fact_vec facts;
    struct strset names; // of facts
    struct map64 index;  // name and machine -> the first of these facts
    struct arena arena;
    uint32_t machine;        // the current machine
    struct failure *failure; // borrowed
};

// Names must outlive the metadata. The set functions replace an earlier value of the name, the add
// functions keep the earlier value.
void metadata_set_int(struct metadata *metadata, const char *name, int64_t value);
void metadata_set_text(struct metadata *metadata, const char *name, struct text text);
void metadata_add_int(struct metadata *metadata, const char *name, int64_t value);
void metadata_add_text(struct metadata *metadata, const char *name, struct text text);
// Marks a fact as made by the converter: the trace does not contain the fact.
void metadata_made(struct metadata *metadata, const char *name);

bool metadata_get_int(const struct metadata *metadata, const char *name, int64_t *ret);
// Returns the text of a fact of the trace, or NULL. The text lives as long as the metadata.
const char *metadata_get_text(const struct metadata *metadata, const char *name);
bool metadata_has(const struct metadata *metadata, const char *name);

// Returns a name made of `prefix` and `size` bytes. The name lives as long as the metadata.
const char *metadata_name(struct metadata *metadata, const char *prefix, const void *bytes,
                          size_t size);

void metadata_write(const struct metadata *metadata, struct database *db);
void metadata_done(struct metadata *metadata);
