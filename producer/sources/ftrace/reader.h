// SPDX-License-Identifier: Apache-2.0
//
// Reads the kernel's ring-buffer pages of all CPUs and writes their events into packets.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/sources/ftrace/bundle_writer.h"
#include "producer/sources/ftrace/event_set.h"
#include "producer/sources/ftrace/format.h"
#include "producer/sources/ftrace/page.h"
#include "protos/config/ftrace_config.pb-c.h"

struct reader_cpu {
    uint32_t cpu;
    int fd;             // owned: trace_pipe_raw, or any file that gives whole sub-buffers
    int stats_fd;       // owned: stats of the CPU; -1: none
    uint64_t last_time; // of the last event in a closed bundle
};

struct reader_counts {
    uint64_t pages;
    uint64_t events;     // written
    uint64_t lost;       // by the kernel, if it gave the number
    uint64_t losses;     // how often the kernel lost events
    uint64_t refused;    // by the buffer
    uint64_t bad_events; // records that contradict their format
};

struct reader {
    struct page_layout layout;
    struct event_context context; // borrowed parts
    struct event_plan **plans;    // borrowed; by the kernel's id; NULL: not selected
    size_t n_plans;
    struct exit_format exits;                          // publishes tasks that exit; id 0: none
    struct free_format frees;                          // publishes tasks that are freed; id 0: none
    const Pb__FtraceConfig__PrintFilter *print_filter; // borrowed; NULL: everything
    uint16_t print_id, print_text;                     // of ftrace/print: id and offset of its text
    struct reader_cpu *cpus;                           // owned
    size_t n_cpus;
    struct bundle bundle;
    uint8_t *page; // owned
    size_t page_size;
    struct bundle_head clock; // clock fields of the bundles of this round
    struct reader_counts counts;
    uint32_t statuses;   // bit N: page_status N occurred
    bool keep_bad_pages; // FtraceConfig.debug_ftrace_abi
};

// The caller sets all other members first. `page_size` is the size of a sub-buffer in bytes. The
// reader owns only the file descriptors in `cpus`. Returns 0 or -ENOMEM.
int reader_init(struct reader *reader, size_t page_size, struct packet_writer *writer,
                const struct compact_format *compact);
void reader_done(struct reader *reader);

// Adds a CPU. Takes over `fd` (closed also on failure).
int reader_add_cpu(struct reader *reader, uint32_t cpu, int fd);

enum reader_progress {
    READER_CAUGHT_UP, // the rest, if any, is not worth a read yet
    READER_MORE,      // stopped at `max_pages`
};

// Reads at most `max_pages` of one CPU. With `everything`, also reads nearly empty pages, until the
// kernel has no more.
enum reader_progress reader_drain(struct reader *reader, size_t index, size_t max_pages,
                                  bool everything);

// Encodes one page as if it had been read. For tests and benchmarks.
void reader_parse(struct reader *reader, size_t index, const void *page, size_t size);
