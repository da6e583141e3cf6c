// SPDX-License-Identifier: Apache-2.0
//
// The parts of a compiled method's code that belong to methods inlined into it. Knows nothing of
// VMs except their record (jvmticmlr.h).
#pragma once

#include <jvmti.h>
#include <stddef.h>
#include <stdint.h>

// Code from `from` up to `to`, and its methods: at least two, the innermost first.
struct inlined_part {
    uintptr_t from, to;
    const jmethodID *methods; // borrowed
    size_t n_methods;
};

// Calls `put` for each part. `info` is the argument of CompiledMethodLoad for `size` bytes of code
// at `address`; NULL: no parts. Adjacent parts with the same methods are joined.
void inlined_code_each(const void *info, const void *address, size_t size,
                       void (*put)(void *userdata, const struct inlined_part *part),
                       void *userdata);
