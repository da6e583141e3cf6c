// SPDX-License-Identifier: Apache-2.0
//
// Recovers the parts of traces of a killed daemon, or from before a reset of the machine.
#pragma once

#include <stdint.h>

#include "common/log.h"

// Completes each part in the folder that has no writer: cuts the part after its last whole packet,
// marks it (protos/trace/recording_cut.proto), and gives it its final name. Removes empty parts.
// Logs a line for each new trace and each failure. Calls `found` with each new trace unless `found`
// is NULL. Returns the number of new traces.
uint64_t armed_recover(const char *folder, const struct log *log,
                       void (*found)(void *userdata, const char *path), void *userdata);
