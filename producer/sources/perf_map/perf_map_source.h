// SPDX-License-Identifier: Apache-2.0
//
// `linux.perf_map`: the names that runtimes give to the code that they generate.
// protos/config/perf_map_config.proto says for which processes, protos/trace/perf_map.proto
// describes the output.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class perf_map_class;
