// SPDX-License-Identifier: Apache-2.0
//
// The root directories of processes, whose files a helper reads for names.
#pragma once

#include <stdint.h>

#include "common/vec.h"

#define NAMES_ROOTS_MAX 256

// The root directory of one or more processes.
struct names_root {
    uint64_t key;
    int fd;          // owned
    uint64_t number; // the helper's number for it; 0: none known
};
VEC_DEFINE(names_root_vec, struct names_root);

// Returns the index plus one of the root, or 0 if there is no room. Takes over `fd`.
uint32_t names_root_add(struct names_root_vec *roots, int fd);
void names_roots_done(struct names_root_vec *roots);
