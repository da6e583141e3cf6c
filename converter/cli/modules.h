// SPDX-License-Identifier: Apache-2.0
//
// Prints the contents of the modules of PerfettoSQL, for mmsql tables and for .modules of the
// prompt.
#pragma once

#include <stdbool.h>

#include "common/str.h"

struct sql_packages;

// Prints a line for each module.
void modules_print(const struct sql_packages *packages);

// Prints the documentation of the modules that `name` means (a name or "package.*"), or of the
// objects of this name. Returns false if there is no module and no object of this name.
bool module_print(const struct sql_packages *packages, const char *name);

// Returns the name of the module or object that is nearest to `name`, or NULL if no name is near.
// The caller frees the result.
char *module_nearest(const struct sql_packages *packages, const char *name);
