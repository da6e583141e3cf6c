// SPDX-License-Identifier: Apache-2.0
//
// The functions of the kernel and of its modules, by address. A table of a common kernel takes
// about 5 MB. Therefore all data sources share one table.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

struct kernel_function {
    uint64_t start;
    uint32_t name; // offset in the names
};
VEC_DEFINE(kernel_function_vec, struct kernel_function);

#define KERNEL_NONE  UINT32_MAX
#define KERNEL_FRESH (10 * NSEC_PER_SEC) // modules may be loaded meanwhile

struct kernel_functions {
    struct kernel_function_vec functions; // by address
    struct strbuf names;                  // each terminated: "NAME", or "NAME [MODULE]"
    bool is_hidden;                       // this program may not see addresses
    size_t n_users;
    char *proc;
    nsec_t read_at; // CLOCK_MONOTONIC
};

// Gets the functions of PROC/kallsyms; kernel_functions_put() gives them back. A table that others
// use is shared if its age is at most `max_age`. Not for several threads. Returns 0; -EPERM if the
// kernel hides the addresses; or another negative errno.
int kernel_functions_get(const char *proc, nsec_t max_age, struct kernel_functions **ret);
// Takes NULL. Returns NULL.
struct kernel_functions *kernel_functions_put(struct kernel_functions *kernel);

// Returns the number of the function at `address`, or KERNEL_NONE. `kernel` may be NULL.
uint32_t kernel_functions_find(const struct kernel_functions *kernel, uint64_t address);
const char *kernel_functions_name(const struct kernel_functions *kernel, uint32_t function);

size_t kernel_functions_bytes(const struct kernel_functions *kernel);
