// SPDX-License-Identifier: Apache-2.0
//
// See translations.h.
#include "converter/import/translations.h"

#include <stdlib.h>

#include "common/str.h"

static const struct {
    const char *key, *name;
} hash_keys[N_TRANSLATED_HASHES] = {
    [HASH_HISTOGRAM] = {"chrome_histogram_sample.name_hash", "chrome_histogram_sample.name"},
    [HASH_USER_EVENT] = {"chrome_user_event.action_hash", "chrome_user_event.action"},
    [HASH_MARK_SITE] = {"chrome_hashed_performance_mark.site_hash",
                        "chrome_hashed_performance_mark.site"},
    [HASH_MARK] = {"chrome_hashed_performance_mark.mark_hash",
                   "chrome_hashed_performance_mark.mark"},
    [HASH_STUDY] = {"chrome_trigger.name_hash", "chrome_trigger.name"},
};

void translate_slice(const struct translations *all, const char **text, size_t *size)
{
    if (!all->slices.n || !*text)
        return;
    uint32_t name = strset_find(all->strings, *text, *size);
    const uint64_t *known = name == STRSET_NONE ? NULL : map64_find(&all->slices, name);
    if (!known)
        return;
    *text = all->strings->entries[*known].text;
    *size = all->strings->entries[*known].size;
}

uint32_t translate_process_track(const struct translations *all, uint32_t name)
{
    const uint64_t *known = all->process_tracks.n && name != STRSET_NONE
                                ? map64_find(&all->process_tracks, name)
                                : NULL;
    return known ? (uint32_t)*known : name;
}

static const uint64_t *hash_find(const struct translations *all, const struct arg *arg,
                                 const char **ret_key)
{
    for (size_t i = 0; i < N_TRANSLATED_HASHES; i++)
        if (str_eq(arg->key, hash_keys[i].key)) {
            *ret_key = hash_keys[i].name;
            return map64_find(&all->hashes[i], (uint64_t)arg->integer);
        }
    return NULL;
}

// Appends the arg and, if the arg is a hash with a name, the name.
static int translated_push(const struct translations *all, struct arg_vec *args,
                           const struct arg *arg)
{
    const char *key = NULL;
    const uint64_t *name = arg->type == ARG_UINT ? hash_find(all, arg, &key) : NULL;
    int r = arg_vec_push(args, *arg);
    if (r < 0 || !name)
        return r;
    const struct strset_entry *text = &all->strings->entries[*name];
    return arg_vec_push(args, arg_text(key, text->text, text->size));
}

static bool has_translation(const struct translations *all, const struct arg_vec *args)
{
    const char *key;
    for (size_t i = 0; all->has_hashes && i < args->n; i++)
        if (args->items[i].type == ARG_UINT && hash_find(all, &args->items[i], &key))
            return true;
    return false;
}

int translate_args(const struct translations *all, struct arg_vec *args)
{
    struct arg_vec translated = {0};
    if (!has_translation(all, args))
        return 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < args->n; i++)
        r = translated_push(all, &translated, &args->items[i]);
    struct arg_vec unused = r == 0 ? *args : translated;
    if (r == 0)
        *args = translated;
    arg_vec_done(&unused);
    return r;
}

void translations_done(struct translations *all)
{
    for (size_t i = 0; i < N_TRANSLATED_HASHES; i++)
        map64_done(&all->hashes[i]);
    map64_done(&all->slices);
    map64_done(&all->process_tracks);
}
