// SPDX-License-Identifier: Apache-2.0
//
// The data of one heap: the tree of call sites with their allocated and freed bytes, the live
// samples, and the loaded code.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "producer/sources/heap/code_map.h"
#include "producer/sources/heap/ring_reader.h"

// A mapping of code.
struct book_mapping {
    uint64_t start, end, file_offset, load_bias;
    uint32_t path, build_id; // in the book's texts
    uint32_t told;           // heap_book.n_forgotten at the program's last report of it
    uint64_t iid;            // for use by the writer
};

// The memory use of all heaps of one process together. The process's heaps share the recorder's
// limits: many heaps get no more than one heap.
struct book_room {
    uint64_t text_bytes, n_mappings, n_sites, n_live;
};

#define BOOK_TEXT_BYTES   (UINT64_C(64) << 20)
#define BOOK_MAPPINGS_MAX (UINT64_C(1) << 20)
#define BOOK_SITES_MAX    (UINT64_C(1) << 22)
#define BOOK_LIVE_MAX     (UINT64_C(1) << 23)

#define BOOK_NO_MAPPING UINT32_MAX
#define BOOK_METHOD     (UINT32_MAX - 1) // a method of a VM

struct book_frame {
    uint32_t mapping; // BOOK_NO_MAPPING: code without a known mapping
    uint64_t rel_pc; // address as in the file's symbol table; the address itself without a mapping;
                     // for a method its number, 0 if unknown
    uint32_t name;   // of a method: in the book's texts; of other code: in the texts of
                     // heap_names.h
    uint64_t iid;    // for use by the writer
};

struct book_site {
    uint32_t parent; // 0 is the root, which stands for an empty stack
    uint32_t frame;
    uint64_t allocated, freed, n_allocs, n_frees;
    // The values at the heap's peak; valid if `peak` equals heap_book.peak.
    uint64_t bytes_at_peak, n_at_peak;
    uint32_t peak;
    uint32_t iid; // for use by the writer
};

VEC_DEFINE(book_mapping_vec, struct book_mapping);
VEC_DEFINE(book_frame_vec, struct book_frame);
VEC_DEFINE(book_site_vec, struct book_site);

// All zero is an empty book of native code.
struct heap_book {
    struct book_room *room; // borrowed; NULL: only the book's own limits apply
    struct strset texts;    // paths, build ids
    struct book_mapping_vec mappings;
    struct map64 mapping_of; // by a hash of all reported fields
    struct code_map code;    // numbers of the currently loaded mappings
    uint32_t n_forgotten;    // how often the program began to report its code anew
    struct book_frame_vec frames;
    struct book_site_vec sites;
    struct map64 frame_of_pc;   // of the currently loaded code
    struct map64 site_of_stack; // by a hash of its addresses; of the currently loaded code
    struct map64 frame_of;      // mapping and rel_pc
    struct map64 site_of;       // parent and frame
    struct map64 live;          // address -> site and weight
    bool has_methods;           // frames are method numbers
    struct map64 methods;       // number -> name in the texts
    uint64_t method_bytes;
    uint64_t total, peak_total;
    uint32_t peak; // counts peaks
    bool below_peak;
    size_t n_named;              // frames before this one have their names (heap_names.h)
    uint64_t n_dropped;          // samples that the book had no room for
    uint64_t state, nowhere_iid; // for use by the writer
};

// Adds a record. Returns 0 or -ENOMEM.
int heap_book_add(struct heap_book *book, const struct ring_record *record);
// Frees the samples that are no longer live but whose FREE was lost. Returns 0 or -ENOMEM.
typedef bool (*book_is_live_fn)(void *userdata, uint64_t address);
int heap_book_reconcile(struct heap_book *book, book_is_live_fn is_live, void *userdata);

// Copies the mappings of another book of the same process. Call it before heap_book_add(). Returns
// 0 or -ENOMEM.
int heap_book_copy_mappings(struct heap_book *book, const struct heap_book *from);
void heap_book_done(struct heap_book *book);

struct book_peak {
    uint64_t bytes, n;
};
struct book_peak heap_book_at_peak(const struct heap_book *book, const struct book_site *site);
