// SPDX-License-Identifier: Apache-2.0
//
// From the buffers of a service into a trace file.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/service/ipc/ipc_client.h"

// Reads the buffers of this connection's session and writes them to `fd`, which is closed in every
// case. `name` is for messages. With `deflate` the packets are compressed, unless the service did
// that already.
int readout_to_file(struct ipc_client *client, int fd, const char *name, bool deflate,
                    uint64_t *ret_bytes, struct err *err);

// As trace_file_open(). A regular file can be read, too, where that is allowed: a service copies a
// trace from the descriptor of the session that it clones.
int readout_open(const char *path, bool no_clobber, int *ret_fd, struct err *err);

// Removes `path` if it is a regular file that is empty; NULL and "-" are nothing.
void readout_remove_empty(const char *path);
