// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "converter/import/importer.h"

// Sets the trace's uuid, unless it is zero.
void trace_uuid_set(struct import *im, uint64_t msb, uint64_t lsb);
