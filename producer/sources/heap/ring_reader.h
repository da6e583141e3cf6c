// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of the ring (producer/heap/heap_abi.h). The memory belongs to a process
// that may be hostile or dying: every record is copied once and then judged, positions and sizes
// are bounded, and the memfd is sealed so that it cannot shrink under the reader.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/sample_table.h"

struct ring_reader {
    int fd;                     // owned: what the client is given
    struct heap_header *header; // owned: the mapping, or a copy
    uint8_t *memory;
    const table_slot *table; // of live samples
    uint32_t table_shift;
    uint64_t bytes, pos;
    uint64_t given_back; // up to here the client may write again
    nsec_t busy_since;   // a record is reserved and not complete; 0: none
    uint64_t n_skipped;  // records that were never finished
    bool corrupted;      // what was found makes no sense: nothing more comes out
    bool closed;         // of the client's memory there is a copy of its header alone
    void *record;        // owned: the copy
};

struct ring_options {
    uint64_t bytes;                 // a power of two
    uint64_t interval_bytes;        // of malloc; 0: it is not wanted
    uint64_t others_interval_bytes; // of heaps that are not in `wanted`; 0: they are not wanted
    uint32_t n_wanted;
    struct heap_wanted wanted[HEAP_WANTED_MAX];
    bool is_numbered; // samples have numbers and no addresses
    bool block_client;
    uint32_t block_timeout_us;
    uint64_t adaptive_free_bytes, adaptive_interval_bytes;
};

// One judged record; everything is borrowed until the next call.
struct ring_record {
    enum heap_record_kind kind; // all but PAD
    unsigned heap;              // ALLOC, FREE, HEAP; below HEAP_HEAPS_MAX
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
// Over a memfd that was made elsewhere, with that header, and is taken over in every case. -EPROTO:
// it is not what it should be.
int ring_reader_over(int fd, const struct ring_options *options, struct ring_reader *ret,
                     struct err *err);
void ring_header_fill(const struct ring_options *options, struct heap_header *ret);
void ring_reader_done(struct ring_reader *ring); // fit for all zero, and twice

// The next record; false: there is none now. `is_last`: the writer is gone, so what is not complete
// will never be.
bool ring_reader_next(struct ring_reader *ring, nsec_t now, bool is_last, struct ring_record *ret);

// Bytes that wait.
uint64_t ring_reader_used(const struct ring_reader *ring);

// Tells the client to end, and that somebody reads.
void ring_reader_stop(struct ring_reader *ring);
void ring_reader_beat(struct ring_reader *ring);

// Asks the client for ARENAS; a client that allocates answers at its next sample.
void ring_reader_ask(struct ring_reader *ring);
bool ring_reader_is_answered(const struct ring_reader *ring);

// Whether a sample that was read is alive, whatever became of the record of its free.
bool ring_reader_is_live(const struct ring_reader *ring, uint64_t address);

// The same for a ring that nobody reads: the client behind `fd` is told to end.
void ring_fd_stop(int fd);

// Gives the memory back to the machine, whoever still has it mapped. Nothing is read after that.
void ring_reader_release(struct ring_reader *ring);
// Behind that: lets go of descriptor and mapping. What the header says stays.
void ring_reader_close(struct ring_reader *ring);
