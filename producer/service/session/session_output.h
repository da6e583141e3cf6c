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

// All zero has no file.
struct session_output {
    struct loop
        *loop; // borrowed; NULL: the caller must come back by itself after SESSION_OUTPUT_BLOCKED
    void (*goes_on)(void *userdata); // a slow reader has made room
    void *userdata;

    struct trace_file *file; // owned
    // The bytes of another session's file from `copied` to `copy_end` come before all packets.
    int copy_fd; // owned while copied < copy_end
    uint64_t copied, copy_end;
    bool syncs;               // this write-out ends with everything on the disk
    struct loop_io *writable; // owned, while a slow reader blocks
    uint64_t bytes;           // written before the file was closed
};

enum session_output_result {
    SESSION_OUTPUT_DONE = 0, // everything that the reader had is in the file
    SESSION_OUTPUT_MORE,     // call again at once
    SESSION_OUTPUT_WAITS,    // goes_on() will be called
    SESSION_OUTPUT_BLOCKED,  // goes_on() will not be called: try again after a while
    SESSION_OUTPUT_NO_ROOM,  // try again after a while, or make room
    SESSION_OUTPUT_FULL,     // the file has its maximum size and takes no more
};

// Writes a little of what `reader` gives. Returns one of the results above, or a negative errno:
// then the file takes no more.
int session_output_write(struct session_output *output, struct session_reader *reader,
                         struct err *err);

uint64_t session_output_bytes(const struct session_output *output); // written so far

// Writes held-back data, if `orderly`, and closes the file.
int session_output_close(struct session_output *output, bool orderly, struct err *err);
