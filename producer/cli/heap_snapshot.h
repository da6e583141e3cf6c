// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace heap --snapshot`: asks recorders that run to show what they have now.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "producer/cli/heap_options.h"

// Asks all recorders of heap profiles that this user may ask, or those that profile `pids`, and
// tells `told` of each. *ret_n: how many.
int heap_snapshot_ask(const struct heap_pid_vec *pids, void (*told)(int recorder, int profiled),
                      size_t *ret_n, struct err *err);
