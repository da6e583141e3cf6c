// SPDX-License-Identifier: Apache-2.0
//
// A socket at which programs ask for a profile. It exists only while a recording wants programs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "common/vec.h"
#include "producer/ground/accepter.h"

// A program asks over `fd` (borrowed). `taken`: another recording has taken the program. Returns
// true to take the program.
typedef bool (*heap_host_fn)(void *userdata, int32_t pid, uid_t uid, int fd, bool taken);

struct door_guest {
    heap_host_fn asks;
    void *userdata;
};
VEC_DEFINE(door_guest_vec, struct door_guest);

struct heap_door {
    struct loop *loop;        // borrowed
    const struct log *log;    // borrowed
    bool is_private;          // a missing socket is an error
    char *name;               // owned; NULL: no program can ask
    struct accepter accepter; // without a descriptor: there is no socket at the moment
    struct door_guest_vec guests;
};

// The socket's name is `name` (may be NULL) and `suffix`. Returns 0 or -ENOMEM.
int heap_door_init(struct heap_door *door, struct loop *loop, const struct log *log,
                   const char *name, const char *suffix, bool is_private);
void heap_door_done(struct heap_door *door); // fit for all zero

// From here until heap_door_leave(), `asks` is called for each program. Fails only if the door is
// private.
int heap_door_join(struct heap_door *door, heap_host_fn asks, void *userdata, struct err *err);
void heap_door_leave(struct heap_door *door, const void *userdata);
