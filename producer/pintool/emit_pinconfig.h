// SPDX-License-Identifier: Apache-2.0
//
// Writes coverages as a pinconfig. Its ranges are relative to their entries, so they also hold for
// the next build, where the entries lie elsewhere.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "common/zipindex.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/list_output.h"

// Appends a pinconfig that selects exactly the covered bytes: with pinconfig_match() and
// pinconfig_select(), each entry gets its ranges, and other entries get nothing. *ret_left_out
// counts entries whose names a pinconfig cannot express, or cannot distinguish from others;
// `first_left_out` has the first of these names, printable. Returns 0, or a negative errno with a
// text that begins with `zip_name`: -ENODATA if nothing is covered; -EFBIG if there are too many
// entries to distinguish; -ENOMEM.
int emit_pinconfig(const struct zipindex *zip, const struct coverages *coverages,
                   const char *zip_name, struct strbuf *ret, size_t *ret_left_out,
                   char (*first_left_out)[128], struct err *err);

// Writes the pinconfig into a file, or to standard output. Returns -EILSEQ if an entry was left
// out; the file is written in this case, too.
int emit_pinconfig_write(const struct list_output *output, const char *path,
                         const struct zipindex *zip, const struct coverages *coverages,
                         const char *zip_name, struct err *err);
