// SPDX-License-Identifier: Apache-2.0
//
// The sources of modules: the built-in library, and folders of .sql files.
#pragma once

#include "common/err.h"
#include "common/vec.h"

struct sql_package_module {
    char *name;  // owned: "package.folder.file"
    char *sql;   // owned
    bool is_own; // of the built-in library
    bool is_included, is_running;
    char *failure; // owned; the error that ended the module; NULL: no error
};
VEC_DEFINE(sql_package_module_vec, struct sql_package_module);

// All zero is empty. Modules are sorted by name after packages_sort().
struct sql_packages {
    struct sql_package_module_vec modules;
    bool has_prelude; // the library has a prelude, which runs before the first statement
    bool is_foreign;  // the user gave the library; it reads internal tables of trace_processor
};

// Adds the built-in library. Returns 0 or -ENOMEM.
int packages_add_library(struct sql_packages *packages);

// Adds the .sql files below a folder as a package. The package has the name of the folder, or the
// name after the last @ of `argument`. Returns -EEXIST if the package exists; with `overrides`,
// replaces the package.
int packages_add(struct sql_packages *packages, const char *argument, bool overrides,
                 struct err *err);

// Replaces all packages by the packages of the folder `path`: each folder inside is a package.
int packages_override_all(struct sql_packages *packages, const char *path, struct err *err);

void packages_done(struct sql_packages *packages); // fit for CLEANUP()

#define MODULES_NEAR_MAX 3

// Finds modules whose names are near to `name`: the module with the most similar name, and the
// modules with the same last part. Returns the number of modules. The names are borrowed from the
// modules.
int packages_near(const struct sql_packages *packages, const char *name,
                  const char *ret[MODULES_NEAR_MAX]);

// Returns whether `pattern` matches the module. A pattern is a name, "package.*", or "*".
bool module_matches(const struct sql_package_module *module, const char *pattern, size_t size);
