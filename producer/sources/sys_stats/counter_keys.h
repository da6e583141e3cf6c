// SPDX-License-Identifier: Apache-2.0
//
// Files with one named counter per line (/proc/vmstat, /proc/meminfo), and the schema's enum that
// numbers the counters. A set learns the places of its counters in the text once; a sample looks
// there first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "common/wire.h"
#include "producer/ground/proc_text.h"
#include <protobuf-c/protobuf-c.h>

#define COUNTER_NAME_MAX 55
#define COUNTER_KEYS_MAX 512 // enum values from here on are unknown

struct counter_alias {
    const char *name; // in the kernel's spelling
    const char *enum_name;
};

// The differences between the counter files.
struct counter_kind {
    const ProtobufCEnumDescriptor *keys;
    const char *key_prefix;              // of the enum's names: "VMSTAT_"
    const struct counter_alias *aliases; // names that the enum spells differently, NULL-terminated
    char separator;                      // follows the name
};

extern const struct counter_kind counter_kind_vmstat, counter_kind_meminfo;

struct counter_place {
    uint32_t key;
    uint32_t offset; // in the text that the place was learned from
    uint8_t n_name;
    char name[COUNTER_NAME_MAX];
};

struct counter_set {
    const struct counter_kind *kind;
    bool wanted[COUNTER_KEYS_MAX]; // by key
    struct counter_place *places;  // owned, in the file's order
    size_t n_places;
    bool stale; // a counter was not at its place: learn again before the next sample
};

// Selects the `n` counters of `keys`, or all of the enum if n is 0. Skips keys that the enum does
// not have (of a newer schema). Returns the number of skipped keys.
size_t counter_set_init(struct counter_set *set, const struct counter_kind *kind, const int *keys,
                        size_t n);
void counter_set_done(struct counter_set *set);

// Learns the places from `text`. If this kernel has split or merged a selected counter, its
// successors are selected under their own enum values. Returns 0 or -ENOMEM.
int counter_set_learn(struct counter_set *set, struct span text);

// Appends a message { key = 1, value = 2 } as `field` for each selected counter in `text`.
void counter_set_write(struct counter_set *set, struct span text, struct wire_writer *w,
                       uint32_t field);

// Appends the names of the counters in `keys` that the text has neither directly nor as successors,
// separated by commas.
void counter_set_list_missing(const struct counter_set *set, const int *keys, size_t n,
                              struct strbuf *ret);
