// SPDX-License-Identifier: Apache-2.0
//
// Functions of the standard libraries of C++ and Rust. Such a function allocates for its caller: an
// allocation of operator new or std::vector tells little without the caller.
#pragma once

#include <stdbool.h>

// Returns whether `name`, mangled or readable, is a function of these libraries.
bool library_names_have(const char *name);
