// SPDX-License-Identifier: Apache-2.0
//
// The inside of a helper: a process that does jobs, one after the other.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/foreign/job.h"

#define FOREIGN_HELPER_NAME "mmtrace-foreign" // argv[0] of a program that is run as a helper
#define FOREIGN_SOCKET_FD   3                 // SOCK_SEQPACKET, to the recorder

#define FOREIGN_HELLO 0 // the message number with which a helper says that it is ready

struct foreign_message {
    uint32_t job;    // in a request
    int32_t result;  // in an answer
    uint64_t number; // an answer repeats the number of its request
    // In an answer: nanoseconds of the job without its waits for a processor; and nanoseconds of
    // all such waits since the process began.
    uint64_t taken, queued;
};

// Sends one message with its bytes and perhaps a descriptor (borrowed; -1: none). Returns 0 or a
// negative errno.
int foreign_message_send(int socket_fd, const struct foreign_message *head, const void *bytes,
                         size_t size, int fd);
// Receives a message into `buffer` of FOREIGN_MESSAGE_MAX bytes. *ret_fd is owned. Returns the size
// or a negative errno: -EPIPE if the other end is closed, -EPROTO if the message is malformed.
ssize_t foreign_message_receive(int socket_fd, int flags, struct foreign_message *ret_head,
                                void *buffer, int *ret_fd);

// The main function of a helper over FOREIGN_SOCKET_FD, with FOREIGN_JOBS_MAX `jobs`. The program's
// arguments are FOREIGN_HELPER_NAME and `proc`. Returns the exit code when the recorder has gone.
int foreign_worker_main(const char *proc, const struct foreign_job *jobs);
