// SPDX-License-Identifier: Apache-2.0
//
// What a recorder that serves others gives up when it is set up, whoever started it.
#pragma once

#include "common/log.h"

// Keeps of root's capabilities those that recording takes, for this process and all that it starts;
// nothing that is executed can gain more (no_new_privs). System calls that no recorder needs fail
// from here on (sandbox_service()). Before threads are made: rights belong to a thread. What cannot
// be given up is told in one line each.
void rights_drop(const struct log *log);
