// SPDX-License-Identifier: Apache-2.0
//
// The rights that a recorder gives up after its setup, if it serves other users.
#pragma once

#include "common/log.h"

// Keeps only those of root's capabilities that recording needs, for this process and all that it
// starts. Executed programs cannot gain more (no_new_privs). System calls that no recorder needs
// fail from here on (sandbox_service()). Call it before threads are made, because rights belong to
// a thread. Logs one line for each right that cannot be given up.
void rights_drop(const struct log *log);
