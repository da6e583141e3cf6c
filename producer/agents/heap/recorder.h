// SPDX-License-Identifier: Apache-2.0
//
// The sockets at which recorders wait for programs.
#pragma once

// A descriptor, or a negative errno.
int recorder_connect(const char *name);

// The ring that the recorder sends. A descriptor, or a negative errno: it does not want the
// program.
int recorder_receive(int socket_fd);
