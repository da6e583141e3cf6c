// SPDX-License-Identifier: Apache-2.0
//
// Task names for sessions that did not ask for them, because events without names help nobody. A
// session that records linux.ftrace and has no linux.process_stats gets an implicit one, which only
// looks up the tasks that occur in events.
#pragma once

#include <stdbool.h>

#include "protos/config/trace_config.pb-c.h"

// Returns whether the session gets one. The names go into a buffer of their own, behind the
// config's buffers.
bool wants_implicit_names(const Pb__TraceConfig *config);

extern const Pb__DataSourceConfig implicit_names_config;
