// SPDX-License-Identifier: Apache-2.0
//
// The kernel events of FtraceConfig.atrace_categories.
#pragma once

// Returns the events of a category as "group/name" and "group/*", separated by blanks. Returns NULL
// if the category is unknown or has only userspace events.
const char *atrace_category_events(const char *category);
