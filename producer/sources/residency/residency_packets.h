// SPDX-License-Identifier: Apache-2.0
//
// Writes residency into the trace: protos/trace/page_residency.proto for tools that know it, and a
// counter track per file for others. Everything that later packets need is retained beside a ring
// (packet_buffer.h), each file under four keys of its own, and dropped when the file is gone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/ranges.h"
#include "producer/sources/residency/probe.h"
#include "producer/trace/packet_writer.h"

struct residency_file_info {
    uint32_t id;
    const char *path; // borrowed
    uint64_t device, inode;
    uint32_t page_size_bytes;
};

enum residency_sample_kind {
    SAMPLE_COUNTS,   // page counts only
    SAMPLE_COMPLETE, // counts and all `runs`
    SAMPLE_CHANGED, // counts and the difference to the runs of the previous revision in `runs`; may
                    // be empty or NULL
    SAMPLE_UNKNOWN, // the kernel does not tell
    SAMPLE_ERROR,   // `error` is the reason
};

struct residency_sample {
    enum residency_sample_kind kind;
    uint32_t file_id;
    struct residency_counts counts;
    uint64_t revision;
    const struct page_ranges *runs; // borrowed
    int error;                      // positive errno
    nsec_t timestamp, duration;
    bool chained; // counts only, but between samples with runs: kept together with these
};

// These functions return false if the buffer refused a packet.

bool packets_write_file(struct packet_writer *writer, nsec_t timestamp,
                        const struct residency_file_info *file);
// Runs that do not fit into one packet are split over several.
bool packets_write_sample(struct packet_writer *writer, const struct residency_sample *sample);
bool packets_write_track(struct packet_writer *writer, const struct residency_file_info *file);
bool packets_write_counter(struct packet_writer *writer, nsec_t timestamp,
                           const struct residency_file_info *file, uint64_t resident_bytes);
// Writes that a file is gone. The file's track, if any, falls to 0.
void packets_write_gone(struct packet_writer *writer, nsec_t timestamp,
                        const struct residency_file_info *file, bool has_track);
bool packets_write_round(struct packet_writer *writer, nsec_t timestamp, nsec_t duration,
                         uint32_t n_files, uint32_t n_changed, uint32_t n_missed);
