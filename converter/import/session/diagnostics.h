// SPDX-License-Identifier: Apache-2.0
//
// Advice about the config of a recording: the table trace_diagnostics.
#pragma once

struct import;
struct wire_field;

// Judges a TraceConfig and writes a row for each mistake. Called after all packets, because the
// stats then show if data was lost.
void diagnostics_write(struct import *im, const struct wire_field *config);
