// SPDX-License-Identifier: Apache-2.0
//
// Fields of a trace config that are accepted and not read, each with the reason. A field causes a
// warning if its lack of effect would show only in the trace.
#pragma once

#include "common/log.h"
#include "producer/sources/source.h"
#include "protos/config/trace_config.pb-c.h"

// Returns the reason why `field` of `message` is not read, or NULL if the field is read.
const struct config_unread *config_unread_find(const ProtobufCMessageDescriptor *message,
                                               const ProtobufCFieldDescriptor *field);

// Warns of fields that have a value and no effect, once per field. `runs` is a RUNS_... bit; with
// 0, each field that has no effect in some sessions causes a warning.
void config_unread_warn(const Pb__TraceConfig *trace, unsigned runs, const struct log *log);
