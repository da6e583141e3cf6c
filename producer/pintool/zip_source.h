// SPDX-License-Identifier: Apache-2.0
//
// Reads the index of a zip without leaving a trace in the page cache: the next probe must not find
// the directory and the headers, and with them the first page of each entry, because this one read
// them.
#pragma once

#include "common/err.h"
#include "common/zipindex.h"
#include "producer/sources/residency/probe.h"

// As zipindex_read(), from an open file of `size_bytes`.
int zip_source_index(struct residency_probe *probe, int fd, uint64_t size_bytes, const char *name,
                     struct zipindex *ret, struct err *err);
