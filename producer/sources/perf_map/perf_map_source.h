// SPDX-License-Identifier: Apache-2.0
//
// `linux.perf_map`: the names that runtimes have for the code that they make
// (protos/config/perf_map_config.proto says whose, protos/trace/perf_map.proto what comes out).
#pragma once

#include "producer/sources/source.h"

extern const struct source_class perf_map_class;
