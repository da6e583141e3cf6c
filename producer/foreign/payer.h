// SPDX-License-Identifier: Apache-2.0
//
// Who answers for what a process costs the recorder.
#pragma once

#include <stdint.h>
#include <sys/types.h>

// A number for the user who stands behind process `pid`: 0 for root, the real uid for others. A
// process in a user namespace is answered for by the user who made the outermost one of these
// namespaces: all uids inside are his. Where the process is gone it is `uid`. Never blocks.
uint64_t foreign_payer(const char *proc, int32_t pid, uid_t uid);
