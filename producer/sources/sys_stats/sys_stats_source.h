// SPDX-License-Identifier: Apache-2.0
//
// linux.sys_stats: polls counters of the whole machine.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class sys_stats_class;
