// SPDX-License-Identifier: Apache-2.0
//
// What FtraceConfig.atrace_categories mean to the kernel.
#pragma once

// Events of a category as "group/name" and "group/*", with blanks between them; NULL: the category
// has none (it is one of userspace) or is unknown.
const char *atrace_category_events(const char *category);
