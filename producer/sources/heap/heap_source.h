// SPDX-License-Identifier: Apache-2.0
//
// android.heapprofd, also called linux.heap: sampled call stacks of what native programs allocate.
// Programs come by themselves (a preloaded libmmheap.so asks at the socket of roots->heap_host) or
// are attached to.
#pragma once

#include "producer/sources/source.h"

extern const struct source_class heap_class;
