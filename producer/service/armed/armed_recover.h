// SPDX-License-Identifier: Apache-2.0
//
// Parts of traces that a daemon left: it was killed, or the machine was reset.
#pragma once

#include <stdint.h>

#include "common/log.h"

// Closes each part in the folder that no process writes: the part is cut behind its last whole
// packet, marked (protos/trace/recording_cut.proto), and gets its name. Empty parts are removed.
// The log and `found` (unless NULL) get a line for each. Returns the number of new traces.
uint64_t armed_recover(const char *folder, const struct log *log,
                       void (*found)(void *userdata, const char *path), void *userdata);
