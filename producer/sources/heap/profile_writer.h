// SPDX-License-Identifier: Apache-2.0
//
// Dumps: the books of all heaps as ProfilePackets, with the interned data that no dump before had.
// The interned data outlives a ring, so each dump that is still in the ring can be read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "producer/sources/heap/heap_book.h"
#include "producer/trace/packet_writer.h"

// One heap of a process; the flags are ProcessHeapSamples' own.
struct profile_process {
    struct heap_book *book; // its iids are used
    const char *heap_name;
    bool is_further; // there is one before of the same process: what is the process's has been told
    int32_t pid;
    uint64_t interval_bytes, orig_interval_bytes; // the latter 0 where sampling does not adapt
    bool from_startup, disconnected, buffer_overran, buffer_corrupted, hit_guardrail;
    bool rejected_concurrent, hit_timeout, names_refused;
    uint64_t n_samples, n_unwind_errors, unwind_us, blocked_us;
    uint64_t n_lost_allocs, n_lost_frees, lost_bytes, owed_bytes;
    const uint32_t *unwind_buckets; // HEAP_TIME_BUCKETS of them
    nsec_t start_coarse;            // CLOCK_MONOTONIC_COARSE
};

enum profile_text { PROFILE_BUILD_ID, PROFILE_PATH, PROFILE_FUNCTION, PROFILE_TEXT_KINDS };

// All zero but for what its user sets.
struct profile_writer {
    struct packet_writer *writer; // borrowed
    bool dump_at_max;
    // The function of a frame that is in a mapping, or NULL. May be NULL.
    const char *(*name)(void *userdata, const struct book_frame *frame);
    void *userdata;
    // When the next dump's numbers were taken; 0: when they are written. Boot time, and
    // CLOCK_MONOTONIC_COARSE.
    nsec_t taken, taken_coarse;

    // Since the state of the sequence began:
    struct strset texts[PROFILE_TEXT_KINDS]; // that have been interned; their ids count from 1
    uint64_t n_mappings, n_frames, interned_bytes;
    uint32_t n_sites;
    uint64_t n_dropped;  // what the writer had dropped before
    uint64_t state;      // counts beginnings; 0: there was none
    uint64_t next_index; // of ProfilePackets
    bool failed;         // the last dump is not whole
};

// From now on the numbers of the next dump do not change.
void profile_take(struct profile_writer *profile);

// False: something was refused by the buffer; the dump is not whole.
bool profile_write(struct profile_writer *profile, const struct profile_process *processes,
                   size_t n);
void profile_writer_done(struct profile_writer *profile);
