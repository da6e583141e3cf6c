// SPDX-License-Identifier: Apache-2.0
//
// Readable names of C++ functions.
#pragma once

// Returns the readable form of `name`, freed by the caller; NULL if `name` is not mangled, or if
// this program is built without a demangler.
char *symbol_demangle(const char *name);
