// SPDX-License-Identifier: Apache-2.0
//
// Where the libraries are that work inside of other processes.
#pragma once

#include <stddef.h>

// Beside this program as it is built, or where it is installed; the variable MMTRACE_HEAP_LIBRARY
// goes before both. 0, or -ENOENT. *ret is terminated.
int heap_library_find(char *ret, size_t ret_size);

// The same for the agent of Java VMs; there is no variable for it.
int java_library_find(char *ret, size_t ret_size);
