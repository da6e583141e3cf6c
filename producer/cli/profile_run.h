// SPDX-License-Identifier: Apache-2.0
//
// The common parts of commands that profile programs: a session in this process, a program under
// test that is started with it, and a trace that replaces an older file only if it has a profile.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/cli/profile_save.h"
#include "producer/cli/recording.h"
#include "producer/service/config/config.h"

// Begin with profile_run_init(), and set the members before `log`.
struct profile_run {
    const char *out_path; // borrowed; "-": standard output
    char **command;       // borrowed, NULL-terminated; NULL: no program
    bool quiet;
    bool wants_lines;            // functions and source lines are looked up at the end
    const char *required_source; // of the session

    struct config config;
    struct log log;
    struct recording here;
    struct session *session;
    pid_t child; // 0: no program
    int child_status;
    int start_fd;  // owned; lets the program begin; -1: no program waits
    int stream_fd; // owned; has a trace for standard output or a pipe until the end; -1: none
    char stream_path[32];
    int direct_fd; // owned; the output, if it can be no new file; -1: none
    // A new file gets its name when it is whole. Until then, `save` has what was recorded so far.
    char new_path[PATH_MAX], part_path[PATH_MAX];
    bool keeps_older; // an older file stays unless the trace has a profile
    bool was_aborted; // by a second signal, while the trace was written
    struct profile_save save;
};

void profile_run_init(struct profile_run *run);
void profile_run_done(struct profile_run *run);

// Prepares the output: call it before anything else. Returns 0 or a negative errno with text.
int profile_run_open_output(struct profile_run *run, struct err *err);
// Watches signals and opens the loop.
int profile_run_open(struct profile_run *run, struct err *err);
int profile_run_open_session(struct profile_run *run, struct err *err);
// Starts the session, and begins to save it.
int profile_run_start_session(struct profile_run *run, struct err *err);
// Runs the session to its end, and writes the trace. Returns 0 or a negative errno with text.
int profile_run_session(struct profile_run *run, struct err *err);

// Starts the program, which waits for profile_run_release(). `prepare` sets its environment, in the
// program's process; NULL: nothing to do. Returns 0 or a negative errno with text.
int profile_run_start(struct profile_run *run, int (*prepare)(void *userdata), void *userdata,
                      struct err *err);
void profile_run_release(struct profile_run *run);

// Returns the name of the output, for messages.
const char *profile_run_name(const struct profile_run *run);
// Returns a path under which the trace can be read at the end.
const char *profile_run_trace(const struct profile_run *run);

// Prints how the program ended.
void profile_run_tell_end(const struct profile_run *run);
// Copies the text about a failed data source, or "".
void profile_run_problem(const struct profile_run *run, char *ret, size_t size);
// Looks up the functions and source lines of the finished trace, if they are wanted, and adds them
// to the trace. Prints the message of a failure, which leaves the trace as it was. Returns whether
// the trace has what is wanted.
bool profile_run_add_lines(const struct profile_run *run);
// Writes the trace to standard output, if standard output is the output.
int profile_run_pour(const struct profile_run *run, struct err *err);
// Puts a trace with a profile in the place of an older file. Without a profile, the older file
// stays, and the trace beside it is removed.
int profile_run_publish(const struct profile_run *run, bool has_profile, struct err *err);
// For a failed recording: adds the place of its trace to `err`, if there is a trace.
void profile_run_tell_part(const struct profile_run *run, struct err *err);
