// SPDX-License-Identifier: Apache-2.0
//
// `linux.page_residency`: samples the resident pages of files, periodically and when they change.
// protos/config/page_residency_config.proto is the config, look.h defines the exactness, and
// protos/trace/page_residency.proto describes the output.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class residency_class;
