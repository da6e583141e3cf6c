// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/smaps as a SmapsPacket: the mappings of a process and their resident memory, summed by
// name.
//
// The kernel gives no name to anonymous mappings of glibc. Their shapes identify two kinds:
// [anon:malloc arena] and [anon:thread stack]. All others are [anon].
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "producer/ground/proc_text.h"
#include "producer/trace/packet_writer.h"

enum smaps_column {
    SMAPS_SIZE,
    SMAPS_RSS,
    SMAPS_PSS,
    SMAPS_PSS_DIRTY,
    SMAPS_SHARED_CLEAN,
    SMAPS_SHARED_DIRTY,
    SMAPS_PRIVATE_CLEAN,
    SMAPS_PRIVATE_DIRTY,
    SMAPS_ANONYMOUS,
    SMAPS_SWAP,
    SMAPS_SWAP_PSS,
    SMAPS_LOCKED,
    N_SMAPS_COLUMNS,
};

struct smaps_row {
    uint32_t n_mappings;
    uint64_t kb[N_SMAPS_COLUMNS];
};
VEC_DEFINE(smaps_row_vec, struct smaps_row);

// A mapping. The next mapping decides its name.
struct smaps_mapping {
    bool is_open, is_anonymous, is_guard; // guard: a mapping without any access
    uint64_t start, end;
    uint64_t guard_before; // size of the guard directly before it
    uint64_t library_end; // end of libmmheap.so if all mappings from there up to here are its data;
                          // otherwise 0
    uint32_t name;
    uint64_t kb[N_SMAPS_COLUMNS];
};

// All zero is the state before the first line.
struct smaps {
    struct strset names;
    struct smaps_row_vec rows; // by name
    struct smaps_mapping mapping;
    bool failed; // memory ran out
};

void smaps_add_line(struct smaps *smaps, struct span line);
void smaps_finish(struct smaps *smaps); // call it after the last line
void smaps_done(struct smaps *smaps);

// Reads smaps and writes the packet. Returns 0, or a negative errno if there is no packet.
int smaps_write(struct packet_writer *writer, const char *proc, int32_t pid);
