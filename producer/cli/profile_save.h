// SPDX-License-Identifier: Apache-2.0
//
// Saves what a profile has so far, again and again, so that a recorder that is killed leaves a
// trace. The first copy is made after a second, later copies every ten seconds.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/ground/loop.h"
#include "producer/service/session/session.h"

// All zero except the borrowed members is a part that saves nothing yet.
struct profile_save {
    const char *path;     // the copy; "": no copies are made
    const char *new_path; // the next copy, until it is complete
    const struct log *log;

    struct loop_timer *timer; // owned
    struct session *session;  // borrowed
    pid_t writer;             // 0: no copy is being written
    nsec_t began, delay;
    bool has_told; // a failure, once
    // The last copy, which has the name `path` unless somebody else has replaced it.
    dev_t device;
    ino_t inode; // 0: none
};

// Begins to save the session, which has no file yet. Returns 0 or a negative errno with text.
int profile_save_begin(struct profile_save *save, struct session *session, struct loop *loop,
                       struct err *err);
// Call this function after each SIGCHLD.
void profile_save_child_ended(struct profile_save *save);
// Ends the saving. The last complete copy stays.
void profile_save_end(struct profile_save *save);
// Returns whether the last copy is there.
bool profile_save_has_copy(const struct profile_save *save);

// Makes a trace file of a new file `path`, mode 0600; what had this name before is removed. `name`
// is for messages. Returns 0 or a negative errno with text.
int profile_save_make_file(const char *path, const char *name, struct trace_file **ret,
                           struct err *err);
