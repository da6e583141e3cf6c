// SPDX-License-Identifier: Apache-2.0
//
// Dumps: writes the books of all heaps as ProfilePackets, with the interned data that earlier dumps
// did not write. The interned data survives the wrap of a ring, so that every dump that is still in
// the ring can be read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "producer/sources/heap/heap_book.h"
#include "producer/sources/interned_stacks.h"
#include "producer/trace/packet_writer.h"

// One heap of a process. The flags are the flags of ProcessHeapSamples.
struct profile_process {
    struct heap_book *book; // the writer sets its iids
    const char *heap_name;
    bool is_further; // an earlier entry describes the same process; its process-wide data are
                     // written there
    int32_t pid;
    uint64_t interval_bytes, orig_interval_bytes; // the original is 0 if sampling does not adapt
    bool from_startup, disconnected, buffer_overran, buffer_corrupted, hit_guardrail;
    bool rejected_concurrent, hit_timeout, names_refused;
    uint64_t n_samples, n_unwind_errors, unwind_us, blocked_us;
    uint64_t n_lost_allocs, n_lost_frees, lost_bytes, owed_bytes;
    const uint32_t *unwind_buckets; // HEAP_TIME_BUCKETS of them
    nsec_t start_coarse;            // CLOCK_MONOTONIC_COARSE
};

// All zero except the members that the user sets.
struct profile_writer {
    struct packet_writer *writer; // borrowed
    bool dump_at_max;
    // Returns the function of a frame that is in a mapping, or NULL. `name` may be NULL.
    const char *(*name)(void *userdata, const struct book_frame *frame);
    void *userdata;
    // Time of the next dump's numbers, in boot time and in CLOCK_MONOTONIC_COARSE; 0: the time of
    // the dump.
    nsec_t taken, taken_coarse;

    // Since the sequence's state began:
    struct interned_stacks interned;
    uint64_t n_mappings, n_frames;
    uint32_t n_sites;
    uint64_t state;      // counts starts of the state; 0: none yet
    uint64_t next_index; // of the ProfilePackets
    bool failed;         // the last dump is incomplete
};

// Takes the time of the next dump's numbers.
void profile_take(struct profile_writer *profile);

// Writes a dump. Returns false if the buffer refused a packet: the dump is incomplete.
bool profile_write(struct profile_writer *profile, const struct profile_process *processes,
                   size_t n);
void profile_writer_done(struct profile_writer *profile);
