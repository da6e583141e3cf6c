// SPDX-License-Identifier: Apache-2.0
//
// The paths of the libraries that work inside other processes.
#pragma once

#include <stddef.h>

// Finds libmmheap.so: by the variable MMTRACE_HEAP_LIBRARY, else beside this program in its build
// folder, else where it is installed. Returns 0 or -ENOENT. *ret is terminated.
int heap_library_find(char *ret, size_t ret_size);

// Finds the agent for Java VMs in the same way, but without a variable.
int java_library_find(char *ret, size_t ret_size);
