// SPDX-License-Identifier: Apache-2.0
//
// The data of libmmheap.a in a program or library, for libmmheap.so: a table of heaps, and a note
// with the place of the table (in PT_NOTE, like a build id). With the note, neither library looks
// up the other by name. A program linked statically to libmmheap.a never needs libmmheap.so.
#pragma once

#include "producer/agents/heap/api/mmheap.h"

#define MMHEAP_NOTE_NAME "mmheap"
// The note holds 8 bytes: the registry's address minus the address of these bytes.
#define MMHEAP_NOTE_REGISTRY 1

#define MMHEAP_REGISTRY_VERSION 1
#define MMHEAP_HEAPS_MAX        64

struct mmheap_registry {
    uint32_t version;
    uint32_t heap_size; // of struct mmheap
    uint32_t lock;
    uint32_t n_heaps;         // entries before this index are complete
    void (*registered)(void); // called for each new heap; NULL: nothing is called
    struct mmheap heaps[MMHEAP_HEAPS_MAX];
};
