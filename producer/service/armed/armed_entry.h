// SPDX-License-Identifier: Apache-2.0
//
// One armed config, for armed.c alone: its file, its session, its snapshots. It is in one of a few
// states:
//
//     WAITING   due at some time      -> LIVE, or WAITING with a longer delay
//     LIVE      has a session         -> WAITING when that ends
//     ENDING    its session was told  -> what `then` says, when that has ended
//               to end, or its config
//               cannot be read now       (or when it is due)
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

// A recording that is over and could not be written yet. Its session holds it.
struct held {
    uint64_t session_id; // 0: there is none
    struct armed_file file, second;
    time_t since;
    nsec_t due;   // the next attempt, where there is no file; NSEC_MAX: it waits for room in `file`
    nsec_t delay; // the one after that
};

struct entry {
    struct armed *armed; // borrowed
    char *name;          // owned: "mm_events.cfg"
    char *folder;        // owned: where it is
    char *title;         // owned: "armed/mm_events.cfg"
    struct stamp stamp;
    struct config config;
    char *output_folder, *output_stem; // owned
    struct service_consumer consumer;
    enum { WAITING, LIVE, ENDING, ALONE } state;
    enum { THEN_LOAD, THEN_GO } then; // after ENDING
    bool seen;                        // by the present look at the folder
    nsec_t due;                       // while WAITING
    nsec_t delay;                     // the next one, if it fails
    uint64_t session_id;              // 0: it has ended
    nsec_t live_since;
    time_t recorded_since;
    struct armed_file file;
    struct armed_file second; // that may take its place
    bool no_room;             // for the file, and that was said
    struct held held;
    struct armed_snapshot *snapshots; // owned, being written
    char *complaint;                  // owned: the last failure, told only once
    bool told;                        // that it is armed
};

VEC_DEFINE(entry_vec, struct entry *);

struct armed {
    struct armed_options options;
    struct entry_vec entries;
    int watch_fd;
    struct loop_io *watch_io;
    struct loop_timer *timer;
    nsec_t look_due; // NSEC_MAX: no need to look
    uint64_t n_files, n_recovered;
    struct armed_closing *closings; // owned
    bool unreadable;                // a place, and that was said
    bool ending;
    void (*done)(void *userdata);
    void *done_userdata;
};

static inline nsec_t armed_now(const struct armed *armed)
{
    return clock_read(armed->options.clock, CLOCK_BOOTTIME);
}

// An error that says nothing about the file or folder.
static inline bool armed_may_pass(int r)
{
    return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EIO || r == -EAGAIN;
}

// Sets the timer to what is due first.
void armed_wake_up(struct armed *armed);

// An entry that is not loaded yet, in the list; NULL: no memory.
struct entry *entry_add(struct armed *armed, const char *folder, const char *name);
// Another place has the config from here on. No memory: the old one still has.
void entry_move(struct entry *entry, const char *folder);
struct entry *entry_free(struct entry *entry); // takes NULL, returns NULL; not taken off the list

void entry_load(struct entry *entry);        // reads the config
void entry_try_session(struct entry *entry); // makes its session
// Ends the entry's session, if it has one; armed_run_due() goes on with `then`.
void entry_end(struct entry *entry, int then);
void entry_finish_snapshots(struct entry *entry); // those that are written
void entry_write_held(struct entry *entry);       // tries again
bool entry_is_idle(const struct entry *entry);    // nothing of it is still to be written

bool entry_has_changed(const struct entry *entry, const struct stat *st);
nsec_t entry_due(const struct entry *entry); // NSEC_MAX: nothing is
