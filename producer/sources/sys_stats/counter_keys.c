// SPDX-License-Identifier: Apache-2.0
//
// The enum's own names are the table: a line belongs to the value whose name has the same letters
// and digits, without regard to case, underscores and parentheses ("Active(anon)" and
// MEMINFO_ACTIVE_ANON). The few names that the schema spells differently are aliases.
//
// A place is remembered as an offset. Numbers grow and shrink by digits, so the shift of one place
// is applied to the next guess. The name must be at the guessed place, at the start of a line and
// with its separator; otherwise the lines are searched. A number is used only after its name was
// compared.
#include "producer/sources/sys_stats/counter_keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/memory.h"
#include "protos/config/sys_stats_config.pb-c.h"
#include "protos/fields.h"

static const struct counter_alias meminfo_aliases[] = {
    {"SReclaimable", "MEMINFO_SLAB_RECLAIMABLE"},
    {"SUnreclaim", "MEMINFO_SLAB_UNRECLAIMABLE"},
    {"Committed_AS", "MEMINFO_COMMITED_AS"},
    {NULL},
};

static const struct counter_alias no_aliases[] = {{NULL}};

const struct counter_kind counter_kind_vmstat = {
    .keys = &pb__vmstat_counters__descriptor,
    .key_prefix = "VMSTAT_",
    .aliases = no_aliases,
    .separator = ' ',
};

const struct counter_kind counter_kind_meminfo = {
    .keys = &pb__meminfo_counters__descriptor,
    .key_prefix = "MEMINFO_",
    .aliases = meminfo_aliases,
    .separator = ':',
};

size_t counter_set_init(struct counter_set *set, const struct counter_kind *kind, const int *keys,
                        size_t n)
{
    *set = (struct counter_set){.kind = kind, .stale = true};
    for (unsigned i = 0; n == 0 && i < kind->keys->n_values; i++) {
        int key = kind->keys->values[i].value;
        if (key > 0 && key < COUNTER_KEYS_MAX)
            set->wanted[key] = true;
    }
    size_t n_unknown = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i] > 0 && keys[i] < COUNTER_KEYS_MAX &&
            protobuf_c_enum_descriptor_get_value(kind->keys, keys[i]))
            set->wanted[keys[i]] = true;
        else
            n_unknown++;
    }
    return n_unknown;
}

void counter_set_done(struct counter_set *set)
{
    free(set->places);
    *set = (struct counter_set){0};
}

static bool same_letters(struct span line_name, const char *enum_name)
{
    const char *a = line_name.pos, *b = enum_name;
    for (;;) {
        while (a < line_name.end && !isalnum((unsigned char)*a))
            a++;
        while (*b == '_')
            b++;
        if (a == line_name.end || *b == '\0')
            return a == line_name.end && *b == '\0';
        if (toupper((unsigned char)*a++) != *b++)
            return false;
    }
}

// Returns the enum value of a line's name, or 0.
static uint32_t key_of_name(const struct counter_kind *kind, struct span name)
{
    for (const struct counter_alias *alias = kind->aliases; alias->name; alias++) {
        if (!span_eq(name, alias->name))
            continue;
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value_by_name(kind->keys, alias->enum_name);
        return value ? (uint32_t)value->value : 0;
    }
    size_t n_prefix = strlen(kind->key_prefix);
    for (unsigned i = 0; i < kind->keys->n_values; i++) {
        const ProtobufCEnumValue *value = &kind->keys->values[i];
        if (value->value > 0 && value->value < COUNTER_KEYS_MAX &&
            same_letters(name, value->name + n_prefix))
            return (uint32_t)value->value;
    }
    return 0;
}

static bool name_of_line(const struct counter_kind *kind, struct span line, struct span *ret)
{
    const char *end = memchr(line.pos, kind->separator, span_size(line));
    if (!end || end == line.pos || end - line.pos > COUNTER_NAME_MAX)
        return false;
    *ret = (struct span){line.pos, end};
    return true;
}

static bool is_present(const struct counter_set *set, uint32_t key)
{
    for (size_t i = 0; i < set->n_places; i++)
        if (set->places[i].key == key)
            return true;
    return false;
}

static void want_name(const struct counter_set *set, bool *extra, const char *stem, size_t n_stem,
                      const char *suffix)
{
    char name[128];
    int n = snprintf(name, sizeof(name), "%.*s%s", (int)n_stem, stem, suffix);
    if (n < 0 || (size_t)n >= sizeof(name))
        return;
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value_by_name(set->kind->keys, name);
    if (value && value->value > 0 && value->value < COUNTER_KEYS_MAX)
        extra[value->value] = true;
}

// Kernels split counters by kind of page, and merged or split them by zone. A missing counter is
// replaced by the counters whose names differ from it only by one of these suffixes.
static void want_successors(const struct counter_set *set, bool *extra, const char *name)
{
    static const char *const suffixes[] = {"_ANON",   "_FILE",    "_DMA",    "_DMA32",
                                           "_NORMAL", "_MOVABLE", "_DEVICE", NULL};
    for (const char *const *suffix = suffixes; *suffix; suffix++) {
        want_name(set, extra, name, strlen(name), *suffix);
        if (str_ends_with(name, *suffix))
            want_name(set, extra, name, strlen(name) - strlen(*suffix), "");
    }
}

static void keep_wanted_places(struct counter_set *set)
{
    bool extra[COUNTER_KEYS_MAX] = {false};
    for (int key = 1; key < COUNTER_KEYS_MAX; key++) {
        if (!set->wanted[key] || is_present(set, (uint32_t)key))
            continue;
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value(set->kind->keys, key);
        if (value)
            want_successors(set, extra, value->name);
    }
    size_t n_kept = 0;
    for (size_t i = 0; i < set->n_places; i++)
        if (set->wanted[set->places[i].key] || extra[set->places[i].key])
            set->places[n_kept++] = set->places[i];
    set->n_places = n_kept;
}

int counter_set_learn(struct counter_set *set, struct span text)
{
    if (!set->places) {
        set->places = memory_calloc(COUNTER_KEYS_MAX, sizeof(*set->places));
        if (!set->places)
            return -ENOMEM;
    }
    bool present[COUNTER_KEYS_MAX] = {false};
    set->n_places = 0;
    struct span rest = text, line, name;
    while (span_take_line(&rest, &line)) {
        if (!name_of_line(set->kind, line, &name))
            continue;
        uint32_t key = key_of_name(set->kind, name);
        if (!key || present[key])
            continue;
        present[key] = true;
        struct counter_place *place = &set->places[set->n_places++];
        place->key = key;
        place->offset = (uint32_t)(line.pos - text.pos);
        place->n_name = (uint8_t)span_size(name);
        memcpy(place->name, name.pos, span_size(name));
    }
    keep_wanted_places(set);
    set->stale = false;
    return 0;
}

// Returns true if the line of `place` begins at `pos`.
static bool stands_at(const struct counter_set *set, const struct counter_place *place,
                      struct span text, const char *pos)
{
    return (pos == text.pos || pos[-1] == '\n') && (size_t)(text.end - pos) > place->n_name &&
           pos[place->n_name] == set->kind->separator &&
           memcmp(pos, place->name, place->n_name) == 0;
}

static const char *search_line(const struct counter_set *set, const struct counter_place *place,
                               struct span text, const char *from)
{
    struct span rest = {from, text.end}, line;
    while (span_take_line(&rest, &line))
        if (stands_at(set, place, text, line.pos))
            return line.pos;
    return from == text.pos ? NULL : search_line(set, place, text, text.pos);
}

// Values of meminfo and of vmstat have one form.
static void write_counter(struct wire_writer *w, uint32_t field, uint32_t key, uint64_t value)
{
    size_t mark = wire_begin(w, field);
    wire_uint(w, PB_SysStats_MeminfoValue_key, key);
    wire_uint(w, PB_SysStats_MeminfoValue_value, value);
    wire_end(w, mark);
}

void counter_set_write(struct counter_set *set, struct span text, struct wire_writer *w,
                       uint32_t field)
{
    int64_t drift = 0, size = (int64_t)span_size(text);
    const char *next_line = text.pos;
    for (size_t i = 0; i < set->n_places; i++) {
        const struct counter_place *place = &set->places[i];
        int64_t guess = place->offset + drift;
        const char *pos = guess >= 0 && guess < size ? text.pos + guess : NULL;
        if (!pos || !stands_at(set, place, text, pos)) {
            pos = search_line(set, place, text, next_line);
            if (!pos) {
                set->stale = true;
                continue;
            }
        }
        drift = (pos - text.pos) - (int64_t)place->offset;
        const char *end = memchr(pos, '\n', (size_t)(text.end - pos));
        next_line = end ? end + 1 : text.end;
        struct span number = {pos + place->n_name + 1, end ? end : text.end};
        uint64_t value;
        if (span_take_u64(&number, &value))
            write_counter(w, field, place->key, value);
    }
}

static bool is_stood_in_for(const struct counter_set *set, const char *name)
{
    bool successors[COUNTER_KEYS_MAX] = {false};
    want_successors(set, successors, name);
    for (size_t i = 0; i < set->n_places; i++)
        if (successors[set->places[i].key])
            return true;
    return false;
}

void counter_set_list_missing(const struct counter_set *set, const int *keys, size_t n,
                              struct strbuf *ret)
{
    for (size_t i = 0; i < n; i++) {
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value(set->kind->keys, keys[i]);
        if (value && !is_present(set, (uint32_t)keys[i]) && !is_stood_in_for(set, value->name))
            strbuf_addf(ret, "%s%s", ret->size ? ", " : "", value->name);
    }
}
