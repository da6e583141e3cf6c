// SPDX-License-Identifier: Apache-2.0
//
// Names of C++ functions as people write them.
#pragma once

// A readable form of `name`, freed by the caller; NULL: it is no mangled name, or this program is
// built without a demangler.
char *symbol_demangle(const char *name);
