// SPDX-License-Identifier: Apache-2.0
//
// Processes in pid namespaces (containers) know themselves by other numbers than the kernel does
// outside. /proc tells both; what such a process says of its own threads is translated.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"

struct import;
struct importer;
struct wire_field;

// All zero knows of none.
struct pid_namespaces {
    struct map64 levels; // pid outside -> how many namespaces it is in below the first
    struct map64 tids;   // process outside, number inside -> tid outside
};

// Reads the numbers, outermost first, in the field `number` of a message. Those of a process; 0 or
// -ENOMEM.
int pid_namespaces_process(struct pid_namespaces *namespaces, uint32_t pid,
                           const struct wire_field *message, uint32_t number);
// Those of a thread of it. -ENOENT: the process is not known to be in a namespace.
int pid_namespaces_thread(struct pid_namespaces *namespaces, uint32_t pid, uint32_t tid,
                          const struct wire_field *message, uint32_t number);

// What the process `pid` calls `local` is *ret outside; false: not known.
bool pid_namespaces_find(const struct pid_namespaces *namespaces, uint32_t pid, uint32_t local,
                         uint32_t *ret);

void pid_namespaces_done(void *state);

// Those of the machine at hand.
struct pid_namespaces *pid_namespaces_of(const struct import *im);
extern const struct importer importer_process_tree; // has the state
