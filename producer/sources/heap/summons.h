// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of a socket that a helper made in a folder of another process's root. The
// process finds the socket there, in any mount, pid or network namespace.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "producer/foreign/helper.h"
#include "producer/foreign/job.h"
#include "producer/ground/accepter.h"
#include "producer/heap/heap_abi.h"

#define SUMMONS_NAME_SIZE   sizeof(HEAP_SUMMONS_PREFIX "0123456789abcdef" HEAP_JAVA_SUFFIX)
#define SUMMONS_FOLDER_SIZE 16

struct summons_request {
    int32_t pid;
    uid_t uid; // of the process; gid too
    gid_t gid;
    char suffix[sizeof(HEAP_JAVA_SUFFIX)];
};

struct summons_place {
    struct summons_request asked;
    uint64_t number; // identifies the folder and the name (heap_abi.h)
    char folder[SUMMONS_FOLDER_SIZE], name[SUMMONS_NAME_SIZE]; // as the process sees them
};

struct summons {
    struct foreign_helper *helper; // borrowed
    uint64_t payer;
    struct summons_place place;
    struct accepter accepter; // its descriptor comes with the place
    void (*comes)(void *userdata, int fd);
    void *userdata;
};

// Calls `comes` with each connection of the process itself (owned by `comes`), until
// summons_close(). Returns 0 or a negative errno.
int summons_wait(struct summons *summons, struct loop *loop, void (*comes)(void *userdata, int fd),
                 void *userdata);

// Closes the socket without a wait. Permitted for a struct that is all zero except accepter.fd
// (-1).
void summons_close(struct summons *summons);

// Closes a connection that the process made.
void summons_leave(const struct summons *summons, int fd);

// The helper's part: makes the socket.

// Opens the place. *ret_fd (owned) is the listening socket, to which only the process's user can
// connect. `worker` holds the folder until summons_close_job(). Returns 0 or a negative errno.
int summons_place_open(struct foreign_worker *worker, const struct summons_request *asked,
                       struct summons_place *ret, int *ret_fd);

// Request: a summons_place, whose name is removed. The recorder has closed the socket before.
void summons_close_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret);

// Removes the remaining names when the helper ends.
void summons_end(void *state);
