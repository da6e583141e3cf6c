// SPDX-License-Identifier: Apache-2.0
//
// What hashes in args and names of slices and tracks stand for, as TranslationTable packets say.
// They are read before anything is translated, wherever in the trace they are.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "converter/import/args.h"

enum translated_hash {
    HASH_HISTOGRAM,
    HASH_USER_EVENT,
    HASH_MARK_SITE,
    HASH_MARK,
    HASH_STUDY,
    N_TRANSLATED_HASHES
};

// All zero but for strings has no rules.
struct translations {
    struct strset *strings; // borrowed
    struct map64 hashes[N_TRANSLATED_HASHES];
    struct map64 slices, process_tracks; // names, both in strings
    bool has_hashes;
};

// The name that a slice, or a track of a process, has in truth; the same if there is no rule.
// `text` lives as long as the strings.
void translate_slice(const struct translations *translations, const char **text, size_t *size);
uint32_t translate_process_track(const struct translations *translations, uint32_t name);

// Adds the names that hashes among the args stand for. 0 or -ENOMEM.
int translate_args(const struct translations *translations, struct arg_vec *args);

void translations_done(struct translations *translations);
