// SPDX-License-Identifier: Apache-2.0
//
// A session with sources and time of the test's own: nothing here waits.
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

// Names of the classes that fail to, NULL: none.
extern const char *failing_open, *failing_start;

// The owner of the next session does not want to hear of room and writing.
extern bool no_room_calls;

struct disk;
struct fake_source;
struct trace_file;
extern struct fake_source *newest; // that was opened

// A packet of the source with `n_bytes` of content.
void fake_write(struct fake_source *source, size_t n_bytes);

struct test {
    struct session *session;
    struct err err;
    char log[1024];
    int fd;                  // of the file that the session writes, kept for reading
    struct trace_file *file; // of the session
    struct disk *disk;       // that its files are written by; NULL: none
    int n_ended, n_started, n_clones;
    char clone_delays[256]; // stop_delay_ms of the hits, in the order of their snapshots
    bool abort_at_clone;    // the call for a snapshot ends the session

    // What the session does when there is no room (-EFBIG: the test has set RLIMIT_FSIZE).
    int n_rooms; // make_room() succeeds so many times
    int n_no_room, n_waits, n_writes;

    // The journal's second file. It takes the place of `fd` when it is complete.
    int next_fd;
    off_t next_start; // offset of its first byte
    bool no_next;     // next_file() fails
    int n_next, n_replaced, n_kept;
};

// Begins a test: `t`, the diary and the time anew, and a session for the config. What session_new()
// returns.
int make(struct test *t, const char *text);
void with_file(struct test *t);
void start(struct test *t);
// Lets `time` pass and the session do whatever comes due in it, each at its time.
void pass(struct test *t, nsec_t time);
void done(struct test *t);

// What the file holds, one letter a packet: C clocks, Y sync marker, T config, U uuid, I system
// info, s/S tracing and all data sources started, f/F flush begun and done, x disabled, r read,
// t trigger, Z statistics, . a source's packet.
const char *file_letters(const struct test *t);
