// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of the ring (producer/heap/heap_abi.h). The memory belongs to a process that
// may be hostile or dying. Therefore every record is copied once and then checked, positions and
// sizes are bounded, and the memfd is sealed so that it cannot shrink under the reader.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/sample_table.h"

struct ring_reader {
    int fd;                     // owned: the memfd for the client
    struct heap_header *header; // owned: the mapping, or a copy of the header
    uint8_t *memory;
    const table_slot *table; // of live samples
    uint32_t table_shift;
    uint64_t bytes, pos;
    uint64_t given_back; // the client may write again up to here
    nsec_t busy_since;   // start of the wait for an incomplete record; 0: none
    uint64_t n_skipped;  // records that were never completed
    bool corrupted;      // the content is malformed: no more records are returned
    bool is_noted;       // the recorder's death is noted in the header (last_will.h)
    bool closed;         // only a copy of the header remains of the client's memory
    void *record;        // owned: the copy of a record
};

struct ring_options {
    uint64_t bytes;                 // a power of two
    uint64_t interval_bytes;        // of malloc; 0: not sampled
    uint64_t others_interval_bytes; // of heaps that are not in `wanted`; 0: not sampled
    uint32_t n_wanted;
    struct heap_wanted wanted[HEAP_WANTED_MAX];
    bool is_numbered; // samples have numbers instead of addresses
    bool block_client;
    char children_ask[HEAP_ADDRESS_BYTES]; // the socket for children after fork; empty: none
    uint32_t block_timeout_us;
    uint64_t adaptive_free_bytes, adaptive_interval_bytes;
};

// One checked record. Everything is borrowed until the next call.
struct ring_record {
    enum heap_record_kind kind; // any kind but PAD
    unsigned heap;              // of ALLOC, FREE and HEAP; below HEAP_HEAPS_MAX
    uint64_t address, weight;
    const uint64_t *frames;
    size_t n_frames;
    const struct heap_arenas *arenas;
    const struct heap_named *named; // its name is terminated
    const struct heap_method *method;
    const char *method_name; // method->name_size bytes
    struct heap_object object;
    const uint8_t *id;
    const char *path;
};

int ring_reader_new(const struct ring_options *options, struct ring_reader *ret, struct err *err);
// Makes a reader for a memfd of another process. Owns `fd` in every case. Returns 0 or a negative
// errno with text: -EPROTO if the size or the seals of the memfd are wrong.
int ring_reader_over(int fd, const struct ring_options *options, struct ring_reader *ret,
                     struct err *err);
void ring_header_fill(const struct ring_options *options, struct heap_header *ret);
void ring_reader_done(struct ring_reader *ring); // all zero is permitted, and a second call too

// Returns the next record, or false if there is none now. `is_last`: the writer is gone, so an
// incomplete record will stay incomplete.
bool ring_reader_next(struct ring_reader *ring, nsec_t now, bool is_last, struct ring_record *ret);

// Returns the number of unread bytes.
uint64_t ring_reader_used(const struct ring_reader *ring);

// ring_reader_stop() tells the client to end its profile. ring_reader_beat() tells the client that
// the recorder is alive.
void ring_reader_stop(struct ring_reader *ring);
void ring_reader_beat(struct ring_reader *ring);

// Asks the client for ARENAS. A client that allocates answers at its next sample.
void ring_reader_ask(struct ring_reader *ring);
bool ring_reader_is_answered(const struct ring_reader *ring);

// Returns whether a sample that was read is alive, even if the record of its free was lost.
bool ring_reader_is_live(const struct ring_reader *ring, uint64_t address);

// Gives the memory back to the system, even if other processes have it mapped. Nothing can be read
// afterwards.
void ring_reader_release(struct ring_reader *ring);
// After the release: closes the descriptor and unmaps the memory. The header stays readable.
void ring_reader_close(struct ring_reader *ring);
