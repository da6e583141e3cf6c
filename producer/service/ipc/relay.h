// SPDX-License-Identifier: Apache-2.0
//
// A process between the service and a client who may not be trusted with descriptors: all that the
// client passes along is received, written to and closed there.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "producer/ground/loop.h"

// Relays of one user other than root, and of all users; those that still have to write count.
#define RELAYS_EACH_MAX 16
#define RELAYS_ALL_MAX  64

struct relays;

// The loop is borrowed.
int relays_new(struct loop *loop, struct relays **ret);
// Those that still write go on without this process.
struct relays *relays_free(struct relays *relays);

// Takes over the connected socket `fd` of user `uid`, also on failure. *ret_fd (owned) is a socket
// to talk with the client, who notices nothing. Where the client passes a descriptor, a pipe comes
// out of *ret_fd: what is written there goes into the client's file, before any later answer
// reaches the client. -EUSERS: the user has, or all have, as many as there may be.
int relays_start(struct relays *relays, int fd, uid_t uid, int *ret_fd);

// Closes a connected socket in which unread descriptors may be, without entering their file
// systems.
void relays_close_socket(int fd);
