// SPDX-License-Identifier: Apache-2.0
//
// One armed config, only for the armed*.c files: its file, its session and its snapshots. The
// states:
//
//     WAITING   due at some time      -> LIVE, or WAITING with a longer delay
//     LIVE      has a session         -> WAITING when the session ends
//     ENDING    its session is ending -> the state that `then` names, when the session
//               or its config cannot     has ended (or when it is due)
//               be read now
//     ALONE     its config is wrong   -> WAITING when the config changes
#pragma once

#include <errno.h>
#include <sys/stat.h>

#include "common/vec.h"
#include "producer/service/armed/armed.h"
#include "producer/service/armed/armed_file.h"

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

// A finished recording that is not written yet. Its session holds the data.
struct held {
    uint64_t session_id; // 0: none
    struct armed_file file, second;
    time_t since;
    nsec_t due;   // the next attempt without a file; NSEC_MAX: waits for room in `file`
    nsec_t delay; // delay after this attempt
};

struct entry {
    struct armed *armed; // borrowed
    char *name;          // owned: "mm_events.cfg"
    char *folder;        // owned: the folder of the config
    char *title;         // owned: "armed/mm_events.cfg"
    struct stamp stamp;
    struct config config;
    char *output_folder, *output_stem; // owned
    struct service_consumer consumer;
    enum { WAITING, LIVE, ENDING, ALONE } state;
    enum { THEN_LOAD, THEN_GO } then; // action after ENDING
    bool seen;                        // found by the present look at the places
    nsec_t due;                       // while WAITING or ENDING
    nsec_t delay;                     // the next delay after a failure
    uint64_t session_id;              // 0: no session
    nsec_t live_since;
    time_t recorded_since;
    struct armed_file file;
    struct armed_file second; // a file that may replace `file`
    bool no_room;             // no room for the file; the log says this already
    struct held held;
    struct armed_snapshot *snapshots; // owned; being written
    char *complaint;                  // owned: last failure, logged only once
    bool told;                        // the log says already that the config is armed
};

VEC_DEFINE(entry_vec, struct entry *);

struct armed {
    struct armed_options options;
    struct entry_vec entries;
    int watch_fd;
    struct loop_io *watch_io;
    struct loop_timer *timer;
    nsec_t look_due; // NSEC_MAX: no look is due
    uint64_t n_files, n_recovered;
    struct armed_closing *closings; // owned
    bool unreadable;                // a place cannot be read; the log says this already
    bool ending;
    void (*done)(void *userdata);
    void *done_userdata;
};

static inline nsec_t armed_now(const struct armed *armed)
{
    return clock_read(armed->options.clock, CLOCK_BOOTTIME);
}

// Returns whether `r` is a temporary error that has nothing to do with the file or folder.
static inline bool armed_may_pass(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EIO || r == -EAGAIN;
}

// Sets the timer to the earliest due time.
void armed_wake_up(struct armed *armed);

// Adds an entry, not loaded yet, to the list. Returns NULL if memory ran out.
struct entry *entry_add(struct armed *armed, const char *folder, const char *name);
// Moves the config to another place. If memory runs out, the config stays in the old place.
void entry_move(struct entry *entry, const char *folder);
// Frees the entry, but does not take it off the list. Takes NULL. Returns NULL.
struct entry *entry_free(struct entry *entry);

void entry_load(struct entry *entry);        // reads the config
void entry_try_session(struct entry *entry); // makes the config's session
// Ends the entry's session, if any. armed_run_due() continues with `then`.
void entry_end(struct entry *entry, int then);
void entry_finish_snapshots(struct entry *entry); // finishes the written snapshots
void entry_write_held(struct entry *entry);       // tries again to write the held recording
bool entry_is_idle(const struct entry *entry); // true: nothing of the entry is left to be written

bool entry_has_changed(const struct entry *entry, const struct stat *st);
nsec_t entry_due(const struct entry *entry); // NSEC_MAX: nothing is due
