// SPDX-License-Identifier: Apache-2.0
//
// Processes between the service and clients that are not trusted with descriptors. Descriptors from
// these clients are received, written and closed only in these processes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "producer/ground/loop.h"

// Limits for one user other than root, and for all users. Relays with unwritten data count.
#define RELAYS_EACH_MAX 16
#define RELAYS_ALL_MAX  64

struct relays;

// `loop` is borrowed. Returns 0 or -ENOMEM.
int relays_new(struct loop *loop, struct relays **ret);
// Frees the relays. Relays that still write continue without this process.
struct relays *relays_free(struct relays *relays);

// Takes over the connected socket `fd`, also on failure. The relay counts for `payer` (payer.h).
// *ret_fd (owned) is a socket to the client, which does not notice the relay. If the client passes
// a descriptor, *ret_fd delivers a pipe in its place. Bytes written to the pipe reach the client's
// file before any later answer reaches the client. Returns 0 or a negative errno: -EUSERS if the
// payer, or all together, have reached the limit.
int relays_start(struct relays *relays, int fd, uint64_t payer, int *ret_fd);

// Closes the connected socket `fd` without entering the file systems of unread descriptors. Before
// Linux 6.16, a process that counts for `payer` does this.
void relays_close_socket(struct relays *relays, int fd, uint64_t payer);
// Closes a file whose last close can take long, in a process that counts for `payer`; without such
// a process, in this one.
void relays_close_file(struct relays *relays, int fd, uint64_t payer);
// Returns true if too many sockets wait for a closer: then no more connections may be accepted.
bool relays_are_full(struct relays *relays);
