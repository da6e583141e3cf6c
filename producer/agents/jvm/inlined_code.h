// SPDX-License-Identifier: Apache-2.0
//
// Which parts of a compiled method's code belong to methods that were inlined into it. Knows
// nothing of VMs but the record that they make (jvmticmlr.h).
#pragma once

#include <jvmti.h>
#include <stddef.h>
#include <stdint.h>

// Code from `from` up to `to`; the methods that it belongs to, the innermost first, at least two.
struct inlined_part {
    uintptr_t from, to;
    const jmethodID *methods; // borrowed
    size_t n_methods;
};

// `info` is what CompiledMethodLoad has, for `size` bytes of code at `address`; NULL: nothing.
// Neighbours with the same methods are one part.
void inlined_code_each(const void *info, const void *address, size_t size,
                       void (*put)(void *userdata, const struct inlined_part *part),
                       void *userdata);
