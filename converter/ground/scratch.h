// SPDX-License-Identifier: Apache-2.0
//
// Memory that may grow beyond what a process should have: a file without a name, mapped for
// writing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/budget.h"

struct scratch {
    uint8_t *bytes; // all zero at first; NULL before the first scratch_reserve()
    size_t size;    // that may be used
    size_t mapped;  // of the address space
    int fd;         // owned if `is_open`
    bool is_open;
    struct budget *budget; // borrowed; NULL: none. To be set before the first scratch_reserve()
};

// Makes at least `size` bytes usable; `bytes` may move. `folder` holds the file; NULL is the
// system's place for temporary files. 0 or a negative errno; -ENOSPC if the disk is full, -EDQUOT
// if the budget is, -ENOMEM if the address space is.
int scratch_reserve(struct scratch *scratch, const char *folder, size_t size);

// Takes the pages out of this process's memory; they come back when they are used.
void scratch_forget(const struct scratch *scratch);
void scratch_done(struct scratch *scratch);
