// SPDX-License-Identifier: Apache-2.0
//
// The paths of the libraries that were installed with this program: the libraries for other
// processes, and the library of the live view.
#pragma once

#include <stddef.h>

// Finds libmmheap.so: by the variable MMTRACE_HEAP_LIBRARY, else beside this program in its build
// folder, else where it is installed. Returns 0 or -ENOENT. *ret is terminated.
int heap_library_find(char *ret, size_t ret_size);

// Finds the library of the live view of `mmtrace top` (top_screen.h) as heap_library_find() does.
int screen_library_find(char *ret, size_t ret_size);

// Finds the agent for Java VMs as heap_library_find() does, but without a variable.
int java_library_find(char *ret, size_t ret_size);
