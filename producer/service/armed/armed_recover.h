// SPDX-License-Identifier: Apache-2.0
//
// Recovers parts of traces that a daemon left behind when it was killed or the machine was reset.
#pragma once

#include <stdint.h>

#include "common/log.h"

// Completes each part in the folder that no process writes: cuts it behind its last whole packet,
// marks it (protos/trace/recording_cut.proto), and gives it its final name. Removes empty parts.
// Logs a line for each part, and calls `found` unless it is NULL. Returns the number of new traces.
uint64_t armed_recover(const char *folder, const struct log *log,
                       void (*found)(void *userdata, const char *path), void *userdata);
