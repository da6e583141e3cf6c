// SPDX-License-Identifier: Apache-2.0
//
// summary.txt of a bugreport: what happened in each of its traces.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "producer/cli/bugreport_traces.h"

// Adds summary.txt to the report. `why` says why there is no trace, if there is none. *ret_main is
// the verdict on the first trace, one line per sentence; without a verdict it stays unchanged.
// Fails only if writing the zip fails.
int bugreport_summary_add(struct bugreport *report, const struct reported_traces *traces,
                          const struct err *why, struct strbuf *ret_main, struct err *err);
