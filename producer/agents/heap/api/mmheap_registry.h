// SPDX-License-Identifier: Apache-2.0
//
// What libmmheap.a leaves in a program or library for libmmheap.so: a table of heaps, and a note
// (in PT_NOTE, like a build id) that says where the table is. So neither has to find the other by
// name, and a program that is linked statically to the one never needs the other.
#pragma once

#include "producer/agents/heap/api/mmheap.h"

#define MMHEAP_NOTE_NAME     "mmheap"
#define MMHEAP_NOTE_REGISTRY 1 // holds 8 bytes: the registry's address minus that of these bytes

#define MMHEAP_REGISTRY_VERSION 1
#define MMHEAP_HEAPS_MAX        64

struct mmheap_registry {
    uint32_t version;
    uint32_t heap_size; // of struct mmheap
    uint32_t lock;
    uint32_t n_heaps;         // those before it are complete
    void (*registered)(void); // whom to tell of new heaps; NULL: nobody
    struct mmheap heaps[MMHEAP_HEAPS_MAX];
};
