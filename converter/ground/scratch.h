// SPDX-License-Identifier: Apache-2.0
//
// Memory that may grow beyond the memory of a process: an unnamed file, mapped for writing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/budget.h"

struct scratch {
    uint8_t *bytes; // all zero at first; NULL before the first scratch_reserve()
    size_t size;    // usable bytes
    size_t mapped;  // bytes of address space
    int fd;         // owned if `is_open`
    bool is_open;
    struct budget *budget; // borrowed; NULL: none. Set before the first scratch_reserve()
};

// Makes at least `size` bytes usable; `bytes` may move. `folder`: the folder of the file; NULL: the
// system's folder for temporary files. Returns 0 or a negative errno: -ENOSPC if the disk is full,
// -EDQUOT if the budget is used up, -ENOMEM if the address space is.
int scratch_reserve(struct scratch *scratch, const char *folder, size_t size);

// Removes the pages from this process's memory; an access maps them again.
void scratch_forget(const struct scratch *scratch);
void scratch_done(struct scratch *scratch);
