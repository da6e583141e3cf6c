// SPDX-License-Identifier: Apache-2.0
//
// Processes in pid namespaces (containers) see other pids and tids than the host. /proc has the
// numbers of both, so the numbers in data from these processes are translated.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"

struct import;
struct importer;
struct wire_field;

// All zero is empty.
struct pid_namespaces {
    struct map64 levels; // host's pid -> number of namespaces below the first
    struct map64 tids;   // host's pid and inner number -> host's tid
};

// Reads the numbers of a process, outermost first, from the field `number` of a message. Returns 0
// or -ENOMEM.
int pid_namespaces_process(struct pid_namespaces *namespaces, uint32_t pid,
                           const struct wire_field *message, uint32_t number);
// Does the work of pid_namespaces_process() for a thread of the process. Also returns -ENOENT: the
// process is not known to be in a namespace.
int pid_namespaces_thread(struct pid_namespaces *namespaces, uint32_t pid, uint32_t tid,
                          const struct wire_field *message, uint32_t number);

// Translates the inner number `local` of the process `pid` to the host's number; false: not known.
bool pid_namespaces_find(const struct pid_namespaces *namespaces, uint32_t pid, uint32_t local,
                         uint32_t *ret);

void pid_namespaces_done(void *state);

// Returns the state of the current machine.
struct pid_namespaces *pid_namespaces_of(const struct import *im);
extern const struct importer importer_process_tree; // has the state
