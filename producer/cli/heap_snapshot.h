// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace heap --snapshot`: asks running recorders for a snapshot of their profiles.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "producer/cli/heap_options.h"

// Asks all recorders of heap profiles that this user may ask, or only those that profile one of
// `pids`. Calls `told` for each. *ret_n is their number.
int heap_snapshot_ask(const struct heap_pid_vec *pids, void (*told)(int recorder, int profiled),
                      size_t *ret_n, struct err *err);
