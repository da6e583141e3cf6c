// SPDX-License-Identifier: Apache-2.0
//
// The functions of the kernel and of its modules, by address.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "common/vec.h"

struct kernel_function {
    uint64_t start;
    uint32_t name; // offset in the names
};
VEC_DEFINE(kernel_function_vec, struct kernel_function);

#define KERNEL_NONE UINT32_MAX

// All zero: not read yet.
struct perf_kernel {
    struct kernel_function_vec functions; // by address
    struct strbuf names;                  // each terminated
    bool is_hidden;                       // this program may not see addresses
};

// Reads PROC/kallsyms. Returns 0 or a negative errno.
int perf_kernel_read(struct perf_kernel *kernel, const char *proc);
void perf_kernel_done(struct perf_kernel *kernel);

// Returns the number of the function at `address`, or KERNEL_NONE.
uint32_t perf_kernel_find(const struct perf_kernel *kernel, uint64_t address);
const char *perf_kernel_name(const struct perf_kernel *kernel, uint32_t function);
