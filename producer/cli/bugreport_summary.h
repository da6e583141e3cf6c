// SPDX-License-Identifier: Apache-2.0
//
// summary.txt of a bugreport: what happened in each of its traces.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "producer/cli/bugreport_traces.h"

// Adds summary.txt. `why` says why there is no trace, if there is none. *ret_main is the verdict of
// the first trace, one line for each sentence; without a verdict it stays as it is. The only errors
// are those of writing the zip.
int bugreport_summary_add(struct bugreport *report, const struct reported_traces *traces,
                          const struct err *why, struct strbuf *ret_main, struct err *err);
