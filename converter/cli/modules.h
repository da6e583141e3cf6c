// SPDX-License-Identifier: Apache-2.0
//
// Prints what the modules of PerfettoSQL have: for mmsql tables, and .modules of the prompt.
#pragma once

#include <stdbool.h>

#include "common/str.h"

struct sql_packages;

// Prints a line for each module.
void modules_print(const struct sql_packages *packages);

// Prints the documentation of the modules that `name` means (a name or "package.*"), or of the
// objects of this name. False: there is neither.
bool module_print(const struct sql_packages *packages, const char *name);

// Returns the name of a module or object that `name` may have been meant for, or NULL; the caller
// frees it.
char *module_nearest(const struct sql_packages *packages, const char *name);
