// SPDX-License-Identifier: Apache-2.0
//
// Writes a session's packets into its file, one slice at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/ground/loop.h"
#include "producer/service/session/session_reader.h"
#include "producer/trace/trace_file.h"

// All zero: no file.
struct session_output {
    struct loop
        *loop; // borrowed; NULL: the caller must try again itself after SESSION_OUTPUT_BLOCKED
    void (*goes_on)(void *userdata); // called when a slow reader has made room
    void *userdata;

    struct trace_file *file; // owned
    // The range from `copied` to `copy_end` of another session's file precedes all packets.
    int copy_fd; // owned while copied < copy_end
    uint64_t copied, copy_end;
    bool syncs;               // this write-out ends with a sync to the disk
    struct loop_io *writable; // owned, while a slow reader blocks
    uint64_t bytes;           // written bytes, once the file is closed
};

enum session_output_result {
    SESSION_OUTPUT_DONE = 0, // all packets of the reader are in the file
    SESSION_OUTPUT_MORE,     // call again at once
    SESSION_OUTPUT_WAITS,    // goes_on() will be called
    SESSION_OUTPUT_BLOCKED,  // goes_on() will not be called; try again after a while
    SESSION_OUTPUT_NO_ROOM,  // try again after a while, or make room
    SESSION_OUTPUT_FULL,     // the file has its maximum size and takes no more
};

// Writes a slice of packets from `reader`. Returns a result above, or a negative errno: then the
// file takes no more.
int session_output_write(struct session_output *output, struct session_reader *reader,
                         struct err *err);

uint64_t session_output_bytes(const struct session_output *output); // written so far

// Closes the file. If `orderly`, writes held-back data first.
int session_output_close(struct session_output *output, bool orderly, struct err *err);
