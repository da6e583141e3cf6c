// SPDX-License-Identifier: Apache-2.0
//
// Translations of hashes in args and of names of slices and tracks, from TranslationTable packets.
// All these packets are read before the first translation.
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

// If all members except `strings` are zero, the translations have no rules.
struct translations {
    struct strset *strings; // borrowed
    struct map64 hashes[N_TRANSLATED_HASHES];
    struct map64 slices, process_tracks; // names, both in strings
    bool has_hashes;
};

// Translate the name of a slice, or of a track of a process. A name without a rule stays. A
// translated text lives as long as the strings.
void translate_slice(const struct translations *translations, const char **text, size_t *size);
uint32_t translate_process_track(const struct translations *translations, uint32_t name);

// Adds the names of the hashes among the args. Returns 0 or -ENOMEM.
int translate_args(const struct translations *translations, struct arg_vec *args);

void translations_done(struct translations *translations);
