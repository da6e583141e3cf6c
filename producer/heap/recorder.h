// SPDX-License-Identifier: Apache-2.0
//
// The agents' side of the sockets at which recorders wait for programs, and of the memory that a
// recorder hands out there.
#pragma once

#include <stdbool.h>

#include "common/nsec.h"
#include "producer/heap/heap_abi.h"

// A program that any recorder may want waits so long for an answer.
#define RECORDER_WAIT (2 * NSEC_PER_SEC)

// Returns how long a program waits for an answer of the recorder at the socket `name`: longer for
// HEAP_OWN_PREFIX, because the machine may be busy. If the recorder ends, all waits end.
nsec_t recorder_wait_max(const char *name);

// Connects to the socket `name`. Returns a descriptor or a negative errno: -EPERM if the server is
// neither root nor the program's own user. `waits`: waits for RECORDER_WAIT while the queue of the
// socket is full, because a stranger may serve there; otherwise -EAGAIN.
int recorder_connect(const char *name, bool waits);

// Receives the ring from the recorder. Returns a descriptor or a negative errno: -ECONNREFUSED if
// the recorder does not want the program or does not answer within `wait_max`, -EPROTO if somebody
// could change the size of the memory. A server whose user has no number in the program's user
// namespace has RECORDER_WAIT at most.
int recorder_receive(int socket_fd, nsec_t wait_max);

// Checks and reads the header of the memory behind `fd`. Returns 0; -EINVAL if the header cannot be
// read; or -EPROTO if the memory is malformed or of another version.
int recorder_check(int fd, struct heap_header *ret);
