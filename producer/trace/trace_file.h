// SPDX-License-Identifier: Apache-2.0
//
// Where packets leave the program: frames them as Trace.packet, deflates them if asked and writes
// them to a file, a pipe or a socket.
//
// Packets are added until there are no more, then flushed; at the end comes trace_file_finish().
// When a pipe's reader is slow, add and flush say TRACE_FILE_BLOCKED and are repeated once the
// descriptor takes bytes again. Except for options.sync, a call costs no more than one packet's
// copy or deflation and a write of about 128 KiB, so an event loop decides after each packet
// whether it has time for another.
//
// Whatever happens, a regular file ends on a packet border. The first error is final: the rest is
// refused with the same code. Descriptors that belong to others are never made non-blocking, and
// still never block the caller. The program has to ignore SIGPIPE and SIGXFSZ.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/trace/packet_buffer.h"

enum trace_file_result {
    TRACE_FILE_BLOCKED = 1, // a pipe's reader is slow; wait until trace_file_fd() is writable
    TRACE_FILE_FULL = 2,    // max_size_bytes would be exceeded; nothing is taken any more
    TRACE_FILE_NO_ROOM =
        3, // options.waits_for_room: the file system takes nothing; try again later
};

struct disk;

struct trace_file_options {
    const char *name; // for messages; copied
    const char
        *path; // that `fd` was opened by; NULL: somebody else opened it. Borrowed for the call
    uint64_t max_size_bytes; // 0: no limit
    bool deflate;            // several packets at a time, as TracePacket.compressed_packets
    bool sync;               // each trace_file_flush() ends with the data on the disk
    // Regular files alone: that there is no room is not the end (TRACE_FILE_NO_ROOM).
    bool waits_for_room;
    // Regular files alone: written and synced in this thread (borrowed). Calls that would write say
    // TRACE_FILE_BLOCKED then, and trace_file_set_ready() has who is to be told. NULL: written in
    // the call.
    struct disk *disk;
};

struct trace_file_stats {
    uint64_t start;             // where in a regular file the first of our bytes is
    uint64_t bytes_written;     // to the descriptor
    uint64_t packets;           // taken
    uint64_t packets_too_large; // above TRACE_FILE_PACKET_MAX, left out
    uint64_t bytes_waiting;     // taken and not written
};

#define TRACE_FILE_PACKET_MAX ((size_t)16 << 20)

struct trace_file;

// Creates (mode 0644 less umask) or truncates `path`; "-" is standard output. With `no_clobber` an
// existing file is an error, -EEXIST. The caller owns *ret_fd.
int trace_file_open(const char *path, bool no_clobber, int *ret_fd, struct err *err);

// Takes `fd` over if it succeeds. All memory is set aside here.
int trace_file_new(int fd, const struct trace_file_options *options, struct trace_file **ret,
                   struct err *err);

// Closes without writing what is still held back; see trace_file_finish().
struct trace_file *trace_file_free(struct trace_file *file);

// Takes one packet. 0, TRACE_FILE_BLOCKED or TRACE_FILE_FULL (not taken, both), or a negative
// errno.
int trace_file_add(struct trace_file *file, const struct packet_view *packet, struct err *err);

// Before any packet: takes some bytes of another trace, whole packets from *offset to `end` of
// `from_fd` (borrowed), and moves *offset behind them. 0, TRACE_FILE_BLOCKED (not taken), or a
// negative errno; -EIO: there are not that many.
int trace_file_copy(struct trace_file *file, int from_fd, uint64_t *offset, uint64_t end,
                    struct err *err);

// Hands everything that was taken to the descriptor. 0, TRACE_FILE_BLOCKED or a negative errno;
// -ENOENT if somebody deleted the file.
int trace_file_flush(struct trace_file *file, struct err *err);

// The same, and then everything is on the disk and out of the page cache.
int trace_file_sync(struct trace_file *file, struct err *err);

// The same as trace_file_flush() without the disk's thread: waits for it, and writes the rest.
int trace_file_flush_now(struct trace_file *file, struct err *err);

// With options.disk: `ready` is called in the loop when a call that was blocked may go on.
void trace_file_set_ready(struct trace_file *file, void (*ready)(void *userdata), void *userdata);

bool trace_file_has_disk(const struct trace_file *file); // options.disk, and a regular file

// The disk's thread works for it: `ready` will be called.
bool trace_file_is_busy(const struct trace_file *file);

// Why the last result was TRACE_FILE_NO_ROOM: a negative errno.
int trace_file_no_room(const struct trace_file *file);

// Flushes, waiting up to `timeout` for a slow reader (-ETIMEDOUT), and closes the descriptor.
int trace_file_finish(struct trace_file *file, nsec_t timeout, struct err *err);

int trace_file_fd(const struct trace_file *file); // -1 after trace_file_finish()
void trace_file_get_stats(const struct trace_file *file, struct trace_file_stats *ret);
