// SPDX-License-Identifier: Apache-2.0
//
// A socket for one process, in a folder of its own root, where it is found whatever mount, pid or
// network namespace the process is in.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/agents/heap/heap_abi.h"

#define SUMMONS_NAME_SIZE   sizeof(HEAP_SUMMONS_PREFIX "0123456789abcdef" HEAP_JAVA_SUFFIX)
#define SUMMONS_FOLDER_SIZE 16

struct summons {
    int32_t pid;
    uint64_t number;          // says the folder and the name (heap_abi.h)
    int folder_fd, listen_fd; // owned; the latter is what is waited for
    char folder[SUMMONS_FOLDER_SIZE], name[SUMMONS_NAME_SIZE]; // as the process names them
};

// `uid` and `gid` are those of the process; only they can connect. `suffix` comes behind the name.
// 0 or a negative errno; summons_close() in both cases.
int summons_open(struct summons *summons, const char *proc, int32_t pid, uid_t uid, gid_t gid,
                 const char *suffix);

// The connection (owned) if the process is there, itself; or a negative errno.
int summons_accept(const struct summons *summons);

void summons_close(struct summons *summons); // also of what is all zero but for its descriptors, -1
