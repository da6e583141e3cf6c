// SPDX-License-Identifier: Apache-2.0
//
// Where modules come from: the library that is built in, and folders of .sql files.
#pragma once

#include "common/err.h"
#include "common/vec.h"

struct sql_package_module {
    char *name;  // owned: "package.folder.file"
    char *sql;   // owned
    bool is_own; // of the library that is built in
    bool is_included, is_running;
    char *failure; // owned; the error that ended the module; NULL: none
};
VEC_DEFINE(sql_package_module_vec, struct sql_package_module);

// All zero is empty. Modules are sorted by name after packages_sort().
struct sql_packages {
    struct sql_package_module_vec modules;
    bool has_prelude; // and is run before the first statement
    bool is_foreign;  // the library was given, and takes internal tables of trace_processor
};

// Adds the library that is built in. 0 or -ENOMEM.
int packages_add_library(struct sql_packages *packages);

// Adds the .sql files below a folder as the package of its name, or of the name after the last @
// of `argument`. A package that is there already is -EEXIST, or replaced with `overrides`.
int packages_add(struct sql_packages *packages, const char *argument, bool overrides,
                 struct err *err);

// Replaces all packages by the packages of the folder `path`: each folder inside is a package.
int packages_override_all(struct sql_packages *packages, const char *path, struct err *err);

void packages_done(struct sql_packages *packages); // fit for CLEANUP()

#define MODULES_NEAR_MAX 3

// Finds modules that `name` may have been meant for: the one with the most similar name, and those
// whose last part is the same. Returns how many; the names belong to the modules.
int packages_near(const struct sql_packages *packages, const char *name,
                  const char *ret[MODULES_NEAR_MAX]);

// Whether the module is meant by `pattern`: its name, "package.*", or "*".
bool module_matches(const struct sql_package_module *module, const char *pattern, size_t size);
