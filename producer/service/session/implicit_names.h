// SPDX-License-Identifier: Apache-2.0
//
// Task names for sessions without linux.process_stats, because events and profiles without names
// help nobody. A session that records linux.ftrace, heap profiles or linux.perf, and has no
// linux.process_stats, gets an implicit source. This source only looks up the tasks in events and
// the profiled processes.
#pragma once

#include <stdbool.h>

#include "protos/config/trace_config.pb-c.h"

// Returns whether the session gets an implicit source. The names go into a separate buffer after
// the config's buffers.
bool wants_implicit_names(const Pb__TraceConfig *config);

extern const Pb__DataSourceConfig implicit_names_config;

// Returns whether linux.ftrace and linux.process_stats name tasks that ended before anybody could
// look them up: a source looks up tasks, and no recorded event of the config has their names.
bool wants_names_of_ended(const Pb__TraceConfig *config);
