// SPDX-License-Identifier: Apache-2.0
//
// Whether a trace config makes sense: what no single field shows. Errors and warnings begin with
// the path of the field that they speak of: `data_sources[2].config.target_buffer: ...`.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "protos/config/trace_config.pb-c.h"

// Everything borrowed.
struct config_check_env {
    const struct log *log;           // gets the warnings; may be NULL
    const char *const *source_names; // what is provided here, NULL-terminated; NULL: not checked
    uint64_t memory_bytes;           // of the machine, which buffers must fit; 0: not checked
};

// 0, or -EINVAL with the first error. A config that passes can be recorded: it has buffers, every
// data source has a name and a buffer, trigger settings agree with each other. Takes any config.
int config_check(const Pb__TraceConfig *trace, const struct config_check_env *env, struct err *err);

// The part of it for regular expressions, for a config of which only the filters count.
int config_check_regexes(const Pb__TraceConfig *trace, struct err *err);

// The memory of this machine, for config_check_env; 0 if it cannot be told.
uint64_t config_machine_memory_bytes(void);
