// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "converter/import/importer.h"

// Appends the values of a DebugAnnotation as args: "debug.NAME", "debug.NAME.KEY", "debug.NAME[0]".
void debug_annotation_read(struct import *im, const struct generation *state,
                           const struct wire_field *annotation, struct arg_vec *args);
