// SPDX-License-Identifier: Apache-2.0
//
// A process between the service and a client that is not trusted with descriptors. Descriptors from
// the client are received, written to and closed in that process only.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "producer/ground/loop.h"

// Limits for one user other than root, and for all users. Relays that still have to write count.
#define RELAYS_EACH_MAX 16
#define RELAYS_ALL_MAX  64

struct relays;

// The loop is borrowed.
int relays_new(struct loop *loop, struct relays **ret);
// Frees the relays. Relays that still write go on without this process.
struct relays *relays_free(struct relays *relays);

// Takes over the connected socket `fd` of user `uid`, also on failure. *ret_fd (owned) is a socket
// to talk with the client, which notices nothing. If the client passes a descriptor, *ret_fd
// delivers a pipe in its place. Bytes written to the pipe reach the client's file before any later
// answer reaches the client. Returns 0 or a negative errno: -EUSERS if the user, or all users
// together, have reached the limit.
int relays_start(struct relays *relays, int fd, uid_t uid, int *ret_fd);

// Closes the connected socket `fd` of user `uid`, which may have unread descriptors, without
// entering their file systems. Before Linux 6.16 a process that counts for the user does the work.
void relays_close_socket(struct relays *relays, int fd, uid_t uid);
// Returns true while so many sockets could not be closed that no more connections may be accepted.
bool relays_are_full(struct relays *relays);
