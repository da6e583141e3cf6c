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

// Appends the first sentence of the comment at the head of the module, which describes the whole
// module. Appends nothing if there is no such comment.
void library_summary_add(struct strbuf *ret, const struct sql_package_module *module);

// Appends the documentation of the module as lines for people: the description of the module, then
// each public object with its arguments and columns. With `name`: only this object. Returns whether
// there is such an object.
bool library_text_add(struct strbuf *ret, const struct sql_package_module *module,
                      const char *name);

// Calls `take` with the name of each public object.
void library_names(const struct sql_package_module *module,
                   void (*take)(void *userdata, const char *name, size_t size), void *userdata);
