// SPDX-License-Identifier: Apache-2.0
//
// linux.process_stats: who the processes and threads are, and how much memory they take.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class process_stats_class;
