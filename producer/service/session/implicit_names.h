// SPDX-License-Identifier: Apache-2.0
//
// Events without names help nobody. A session that records linux.ftrace and has no
// linux.process_stats gets one that looks up the tasks which occur in events, and nothing else.
#pragma once

#include <stdbool.h>

#include "protos/config/trace_config.pb-c.h"

// The names go into a buffer of their own, behind those of the config.
bool wants_implicit_names(const Pb__TraceConfig *config);

extern const Pb__DataSourceConfig implicit_names_config;
