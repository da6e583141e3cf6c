// SPDX-License-Identifier: Apache-2.0
//
// The data source linux.ftrace: reads FtraceConfig, writes FtraceEventBundle and FtraceStats.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class ftrace_class;
