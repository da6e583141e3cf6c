// SPDX-License-Identifier: Apache-2.0
//
// A session with sources and a clock of the test's own: nothing here waits.
#pragma once

#include <sys/types.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/service/session/session.h"
#include "tests/unit/unit.h"

#define TWO_SOURCES                                                                                \
    "buffers { size_kb: 64 } data_sources { config { name: 'b' } } "                               \
    "data_sources { config { name: 'a' } } "

// Time stands still until the test moves it; the machine may sleep meanwhile.
struct fake_time {
    nsec_t boot, asleep;
};

extern struct fake_time fake_time;

#define DIARY_BYTES 4096
extern char diary[DIARY_BYTES]; // of the sources: "open a, start a, flush a, ..."

// Names of the classes whose open() or start() fails; NULL: none.
extern const char *failing_open, *failing_start;

// The owner of the next session has no callbacks for room and writing.
extern bool no_room_calls;

struct disk;
struct fake_source;
struct trace_file;
extern struct fake_source *newest; // the last source that was opened

// Writes a packet of the source with `n_bytes` of content.
void fake_write(struct fake_source *source, size_t n_bytes);

struct test {
    struct session *session;
    struct err err;
    char log[1024];
    int fd;                  // of the file that the session writes, kept for reading
    struct trace_file *file; // of the session
    struct disk *disk;       // writes the session's files; NULL: none
    int n_ended, n_started, n_all_started, n_clones;
    char clone_delays[256]; // stop_delay_ms of the hits, in the order of their snapshots
    bool abort_at_clone;    // the call for a snapshot ends the session

    // The calls of a session without room (-EFBIG: the test has set RLIMIT_FSIZE).
    int n_rooms; // the number of successful calls of make_room()
    int n_no_room, n_waits, n_writes;

    // The journal's second file, which takes the place of `fd` when it is complete.
    int next_fd;
    off_t next_start; // offset of its first byte
    bool no_next;     // next_file() fails
    int n_next, n_replaced, n_kept;
};

// Begins a test: resets `t`, the diary and the time, and makes a session for the config. Returns
// the result of session_new().
int make(struct test *t, const char *text);
void with_file(struct test *t);
void start(struct test *t);
// Lets `time` pass. The session does all work that comes due, at its time.
void pass(struct test *t, nsec_t time);
void done(struct test *t);

// Returns the content of the file, one letter a packet: C clocks, Y sync marker, T config, U uuid,
// I system info, s/S tracing and all data sources started, f/F flush begun and done, x disabled, r
// read, t trigger, Z statistics, . a source's packet.
const char *file_letters(const struct test *t);
