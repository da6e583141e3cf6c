// SPDX-License-Identifier: Apache-2.0
//
// The documentation of modules, read from their text: comments above a definition describe it,
// comments above a column or argument describe that.
#pragma once

#include "common/str.h"

struct sql_package_module;

// Appends JSON objects, each behind a comma, one for the module and one for each table, view,
// function and macro that it defines: package, module, name, qualified_name, object_type, exposed,
// short_description, description, summary, return_type, return_description, args and cols.
void library_docs_add(struct strbuf *ret, const struct sql_package_module *module);
