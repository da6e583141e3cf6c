// SPDX-License-Identifier: Apache-2.0
//
// linux.system_info: what the cpus are, and what the interrupts are called.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class system_info_class;
