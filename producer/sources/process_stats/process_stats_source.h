// SPDX-License-Identifier: Apache-2.0
//
// linux.process_stats: the names of processes and threads, and their memory counters.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class process_stats_class;
