// SPDX-License-Identifier: Apache-2.0
//
// Checks a trace config: the fields, and their combinations. Errors and warnings begin with the
// path of the field: `data_sources[2].config.target_buffer: ...`.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "protos/config/trace_config.pb-c.h"

// All members are borrowed.
struct config_check_env {
    const struct log *log;           // gets the warnings; may be NULL
    const char *const *source_names; // known data sources, NULL-terminated; NULL: not checked
    uint64_t memory_bytes;           // memory of the machine, which limits buffers; 0: not checked
    unsigned runs;                   // a RUNS_... bit; 0: unknown
};

// Returns 0, or -EINVAL with the first error. Accepts any message. A config that passes can be
// recorded: it has buffers, every data source has a name and a buffer, and the settings of triggers
// are consistent.
int config_check(const Pb__TraceConfig *trace, const struct config_check_env *env, struct err *err);

// Checks the regular expressions alone, for a request that changes only the filters.
int config_check_regexes(const Pb__TraceConfig *trace, struct err *err);

// Returns the memory of this machine in bytes, for config_check_env; 0: unknown.
uint64_t config_machine_memory_bytes(void);
