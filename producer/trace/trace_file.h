// SPDX-License-Identifier: Apache-2.0
//
// Writes the trace: frames packets as Trace.packet, deflates them if requested, and writes them to
// a file, a pipe or a socket.
//
// Call trace_file_add() for each packet, then trace_file_flush(); at the end trace_file_finish().
// If a pipe's reader is slow, both functions return TRACE_FILE_BLOCKED: repeat the call when the
// descriptor is writable. Except with options.sync, a call costs at most the copy or deflation of
// one packet and a write of about 128 KiB. Therefore an event loop can do other work after each
// packet.
//
// A regular file ends on a packet border, also after an error. The first error is final: all
// further packets are refused with the same code. The functions never make a descriptor of another
// process non-blocking, and such a descriptor still never blocks the caller. The program must
// ignore SIGPIPE and SIGXFSZ.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/trace/packet_buffer.h"

enum trace_file_result {
    TRACE_FILE_BLOCKED = 1, // a pipe's reader is slow: wait until trace_file_fd() is writable
    TRACE_FILE_FULL = 2,    // max_size_bytes would be exceeded: no more packets are taken
    TRACE_FILE_NO_ROOM = 3, // with options.waits_for_room: the file system is full; try again later
};

struct disk;

struct trace_file_options {
    const char *name;        // for messages; copied
    const char *path;        // path of `fd`; NULL: another process opened it. Borrowed for the call
    uint64_t max_size_bytes; // 0: no limit
    bool deflate;            // several packets at a time, as TracePacket.compressed_packets
    bool sync;               // each trace_file_flush() puts the data on the disk
    // Regular files only: a full file system does not end the trace (TRACE_FILE_NO_ROOM).
    bool waits_for_room;
    // Regular files only: this thread (borrowed) writes and syncs. Calls that would write return
    // TRACE_FILE_BLOCKED, and the function of trace_file_set_ready() is called later. NULL: the
    // calls themselves write.
    struct disk *disk;
};

struct trace_file_stats {
    uint64_t start;             // offset of our first byte in a regular file
    uint64_t bytes_written;     // to the descriptor
    uint64_t packets;           // accepted packets
    uint64_t packets_too_large; // packets beyond TRACE_FILE_PACKET_MAX, which were left out
    uint64_t bytes_waiting;     // accepted, but not written
};

#define TRACE_FILE_PACKET_MAX ((size_t)16 << 20)

struct trace_file;

// Creates `path` with mode 0600, or truncates it; "-" is standard output. With `no_clobber`, an
// existing file fails with -EEXIST. The caller owns *ret_fd. Returns 0 or a negative errno.
int trace_file_open(const char *path, bool no_clobber, int *ret_fd, struct err *err);

// Makes a trace file. Takes over `fd` on success. Allocates all memory that the file ever needs.
// Returns 0 or a negative errno with text.
int trace_file_new(int fd, const struct trace_file_options *options, struct trace_file **ret,
                   struct err *err);

// Closes the file. Packets that are not written yet are lost; see trace_file_finish().
struct trace_file *trace_file_free(struct trace_file *file);

// Takes one packet. Returns 0; TRACE_FILE_BLOCKED, TRACE_FILE_FULL or TRACE_FILE_NO_ROOM, with the
// packet not taken; or a negative errno.
int trace_file_add(struct trace_file *file, const struct packet_view *packet, struct err *err);

// Copies some bytes of another trace; call it before the first trace_file_add(). The bytes from
// *offset to `end` of `from_fd` (borrowed) are whole packets. Moves *offset past the copied bytes.
// Returns 0; TRACE_FILE_BLOCKED or TRACE_FILE_NO_ROOM, with nothing copied; or a negative errno:
// -EIO if `from_fd` has fewer bytes.
int trace_file_copy(struct trace_file *file, int from_fd, uint64_t *offset, uint64_t end,
                    struct err *err);

// Writes all accepted packets to the descriptor. Returns 0, TRACE_FILE_BLOCKED, TRACE_FILE_NO_ROOM
// or a negative errno: -ENOENT if the file was deleted.
int trace_file_flush(struct trace_file *file, struct err *err);

// Flushes, syncs the file to the disk, and drops it from the page cache.
int trace_file_sync(struct trace_file *file, struct err *err);

// Flushes without the disk thread: waits for the thread and writes the rest.
int trace_file_flush_now(struct trace_file *file, struct err *err);

// Sets the function that the loop calls when a blocked call may be repeated, with options.disk.
void trace_file_set_ready(struct trace_file *file, void (*ready)(void *userdata), void *userdata);

bool trace_file_has_disk(const struct trace_file *file); // options.disk, and a regular file

// Returns whether the disk thread works for the file. If so, `ready` will be called.
bool trace_file_is_busy(const struct trace_file *file);

// Returns the reason of the last TRACE_FILE_NO_ROOM, a negative errno.
int trace_file_no_room(const struct trace_file *file);

// Flushes, waits up to `timeout` ns for a slow reader (then -ETIMEDOUT), and closes the descriptor.
int trace_file_finish(struct trace_file *file, nsec_t timeout, struct err *err);

int trace_file_fd(const struct trace_file *file); // -1 after trace_file_finish()
void trace_file_get_stats(const struct trace_file *file, struct trace_file_stats *ret);
