// SPDX-License-Identifier: Apache-2.0
//
// linux.system_info: descriptions of the cpus, and names of the interrupts.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class system_info_class;
