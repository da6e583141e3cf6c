// SPDX-License-Identifier: Apache-2.0
//
// Copies the buffers of a service into a trace file.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/service/ipc/ipc_client.h"

// Reads the buffers of this connection's session and writes them to `fd`. `fd` is closed in every
// case. `name` is for messages. With `deflate`, the packets are compressed unless the service has
// compressed them.
int readout_to_file(struct ipc_client *client, int fd, const char *name, bool deflate,
                    uint64_t *ret_bytes, struct err *err);

// Opens `path` as trace_file_open() does. A regular file is opened for reading as well, if
// permitted: a service that clones a session reads the trace through the descriptor.
int readout_open(const char *path, bool no_clobber, int *ret_fd, struct err *err);

// Removes `path` if it is an empty regular file. Ignores NULL and "-".
void readout_remove_empty(const char *path);
