// SPDX-License-Identifier: Apache-2.0
//
// See translations.h.
#include "converter/import/translations.h"

#include "common/str.h"

static const struct {
    const char *key, *name;
} translated[N_TRANSLATED_HASHES] = {
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
        if (str_eq(arg->key, translated[i].key)) {
            *ret_key = translated[i].name;
            return map64_find(&all->hashes[i], (uint64_t)arg->integer);
        }
    return NULL;
}

int translate_args(const struct translations *all, struct arg_vec *args)
{
    int r = 0;
    for (size_t i = 0, n = args->n; all->has_hashes && r == 0 && i < n; i++) {
        const struct arg *arg = &args->items[i];
        const char *key = NULL;
        const uint64_t *name = arg->type == ARG_UINT ? hash_find(all, arg, &key) : NULL;
        if (name)
            r = arg_vec_push(args, arg_text(key, all->strings->entries[*name].text,
                                            all->strings->entries[*name].size));
    }
    return r;
}

void translations_done(struct translations *all)
{
    for (size_t i = 0; i < N_TRANSLATED_HASHES; i++)
        map64_done(&all->hashes[i]);
    map64_done(&all->slices);
    map64_done(&all->process_tracks);
}
