// SPDX-License-Identifier: Apache-2.0
//
// TraceAttributes: notes of users about a trace, as facts.
#pragma once

struct import;
struct wire_field;

void attributes_read(struct import *im, const struct wire_field *message);
