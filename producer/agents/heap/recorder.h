// SPDX-License-Identifier: Apache-2.0
//
// The client's side of the sockets at which recorders wait for programs.
#pragma once

// Connects to the socket `name`. Returns a descriptor or a negative errno.
int recorder_connect(const char *name);

// Receives the ring from the recorder. Returns a descriptor, or a negative errno if the recorder
// does not want the program.
int recorder_receive(int socket_fd);
