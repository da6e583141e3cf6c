// SPDX-License-Identifier: Apache-2.0
//
// `linux.page_residency`: samples which pages of which files are in the page cache, periodically
// and driven by change (protos/config/page_residency_config.proto says what, look.h how exact,
// protos/trace/page_residency.proto what comes out).
#pragma once

#include "producer/sources/source.h"

extern const struct source_class residency_class;
