// SPDX-License-Identifier: Apache-2.0
//
// Drops rights of a recorder that serves other users, after its setup.
#pragma once

#include "common/log.h"

// Keeps only root's capabilities that recording needs, for this process and its later child
// processes. Executed programs cannot gain more (no_new_privs). System calls that no recorder needs
// fail from here on (sandbox_service()). Must be called before threads are made, because rights
// belong to a thread. Logs one line for each right that cannot be dropped.
void rights_drop(const struct log *log);
