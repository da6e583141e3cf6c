// SPDX-License-Identifier: Apache-2.0
//
// The agents' side of the sockets at which recorders wait for programs, and of the memory that a
// recorder hands out there.
#pragma once

#include <stdbool.h>

#include "producer/heap/heap_abi.h"

// Connects to the socket `name`. Returns a descriptor or a negative errno: -EPERM if the server is
// neither root nor the program's own user. `waits`: waits some seconds while the queue of the
// socket is full; otherwise -EAGAIN.
int recorder_connect(const char *name, bool waits);

// Receives the ring from the recorder. Returns a descriptor or a negative errno: -ECONNREFUSED if
// the recorder does not want the program, -EPROTO if somebody could change the size of the memory.
int recorder_receive(int socket_fd);

// Checks and reads the header of the memory behind `fd`. Returns 0; -EINVAL if the header cannot be
// read; or -EPROTO if the memory is malformed or of another version.
int recorder_check(int fd, struct heap_header *ret);
