// SPDX-License-Identifier: Apache-2.0
//
// The documentation of modules, read from their text: a comment above a definition, a column or an
// argument describes the definition, the column or the argument.
#pragma once

#include "common/str.h"

struct sql_package_module;

// Appends JSON objects, each after a comma, one for the module and one for each table, view,
// function and macro that it defines: package, module, name, qualified_name, object_type, exposed,
// short_description, description, summary, return_type, return_description, args and cols.
void library_docs_add(struct strbuf *ret, const struct sql_package_module *module);

// Appends the first sentence of the comment at the head of the module, which is about the module as
// a whole. Nothing without such a comment.
void library_summary_add(struct strbuf *ret, const struct sql_package_module *module);

// Appends the documentation of the module as lines for people: what the module has as a whole, then
// each object that others may use with its arguments and columns. With `name`: of this object only.
// Returns whether there is one.
bool library_text_add(struct strbuf *ret, const struct sql_package_module *module,
                      const char *name);

// Calls `take` with the name of each object that others may use.
void library_names(const struct sql_package_module *module,
                   void (*take)(void *userdata, const char *name, size_t size), void *userdata);
