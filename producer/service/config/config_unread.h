// SPDX-License-Identifier: Apache-2.0
//
// Fields of a trace config that are accepted and not read, each with the reason. Those whose
// absence somebody would only notice in the trace get a warning.
#pragma once

#include "common/log.h"
#include "producer/sources/source.h"
#include "protos/config/trace_config.pb-c.h"

// The reason why nobody reads `field` of `message`; NULL: it is read.
const struct config_unread *config_unread_find(const ProtobufCMessageDescriptor *message,
                                               const ProtobufCFieldDescriptor *field);

// Warns of fields that are set to something and have no effect, once for each field.
void config_unread_warn(const Pb__TraceConfig *trace, const struct log *log);
