// SPDX-License-Identifier: Apache-2.0
//
// Files of named counters, a line each (/proc/vmstat, /proc/meminfo), and the schema's enum that
// numbers them. A set learns once where its counters stand; a sample then looks there first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "common/wire.h"
#include "producer/ground/proc_text.h"
#include <protobuf-c/protobuf-c.h>

#define COUNTER_NAME_MAX 55
#define COUNTER_KEYS_MAX 512 // enum values from here on are not known

struct counter_alias {
    const char *name; // as the kernel spells it
    const char *enum_name;
};

// What tells one counter file from another.
struct counter_kind {
    const ProtobufCEnumDescriptor *keys;
    const char *key_prefix;              // of the enum's names: "VMSTAT_"
    const struct counter_alias *aliases; // names that the enum spells otherwise, NULL-terminated
    char separator;                      // behind the name
};

extern const struct counter_kind counter_kind_vmstat, counter_kind_meminfo;

struct counter_place {
    uint32_t key;
    uint32_t offset; // in the text that was learned from
    uint8_t n_name;
    char name[COUNTER_NAME_MAX];
};

struct counter_set {
    const struct counter_kind *kind;
    bool wanted[COUNTER_KEYS_MAX]; // by key
    struct counter_place *places;  // owned, in the file's order
    size_t n_places;
    bool stale; // something was not where it was: learn again before the next sample
};

// Wants the `n` counters of `keys`, or all that the enum knows when n is 0. Returns how many of
// `keys` the enum does not have (a newer schema's); those are passed over.
size_t counter_set_init(struct counter_set *set, const struct counter_kind *kind, const int *keys,
                        size_t n);
void counter_set_done(struct counter_set *set);

// Learns the places from `text`. Wanted counters that this kernel has split or merged bring in
// those that took their place, under the enum values of their own. 0 or -ENOMEM.
int counter_set_learn(struct counter_set *set, struct span text);

// Appends a message { key = 1, value = 2 } as `field` for each wanted counter that is in `text`.
void counter_set_write(struct counter_set *set, struct span text, struct wire_writer *w,
                       uint32_t field);

// Appends the names of the counters in `keys` that the text had neither as such nor under the names
// of their successors, with commas between.
void counter_set_list_missing(const struct counter_set *set, const int *keys, size_t n,
                              struct strbuf *ret);
