// SPDX-License-Identifier: Apache-2.0
//
// Coverages as a pinconfig: ranges relative to their entries, which hold for the next build, too,
// where the entries lie elsewhere.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "common/zipindex.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/list_output.h"

// Appends a pinconfig that picks out of the zip exactly what the coverages have: read back with
// pinconfig_match() and pinconfig_select(), each entry gets its ranges, and others nothing.
// *ret_left_out: entries whose names a pinconfig cannot say, or say apart from others; the first of
// them is in `first_left_out`, for people. -ENODATA: nothing is covered; -EFBIG: too many entries
// to be told apart; -ENOMEM. The text begins with `zip_name`.
int emit_pinconfig(const struct zipindex *zip, const struct coverages *coverages,
                   const char *zip_name, struct strbuf *ret, size_t *ret_left_out,
                   char (*first_left_out)[128], struct err *err);

// The same into a file, or standard output; -EILSEQ, with the file written, if something is left
// out.
int emit_pinconfig_write(const struct list_output *output, const char *path,
                         const struct zipindex *zip, const struct coverages *coverages,
                         const char *zip_name, struct err *err);
