// SPDX-License-Identifier: Apache-2.0
//
// What a daemon left that was killed, or that the machine took along: parts of traces.
#pragma once

#include <stdint.h>

#include "common/log.h"

// Closes each part in the folder that nobody writes: cut behind its last whole packet, marked
// (protos/trace/recording_cut.proto), under its name. Empty ones are removed. How many have become
// traces; what each is goes to the log, and `found` (NULL: nobody) hears of it.
uint64_t armed_recover(const char *folder, const struct log *log,
                       void (*found)(void *userdata, const char *path), void *userdata);
