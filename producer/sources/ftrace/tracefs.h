// SPDX-License-Identifier: Apache-2.0
//
// The kernel's tracing file system, and one ring buffer in it: an instance of our own, somebody's
// instance, or the main buffer.
//
// What is changed is put back: an instance of our own is removed; elsewhere each file's old content
// is remembered, first in a journal on disk. So the next run can also clean up after a process that
// had no time to do it itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/ground/run_folder.h"

#define TRACEFS_STATE_DIR RUN_FOLDER // where journals are, unless a test says otherwise

struct tracefs_undo {
    char *path;  // owned, below the root
    char *value; // owned; NULL: an instance to be removed
    bool append; // the value is a command to be added, not the file's content
};

VEC_DEFINE(tracefs_undos, struct tracefs_undo);

struct tracefs {
    char *root; // owned: "/sys/kernel/tracing"
    char *path; // owned: the buffer's folder, `root` itself for the main buffer
    bool created;
    int journal_fd; // -1: none
    char *journal;  // owned
    struct tracefs_undos undo;
};

struct tracefs_options {
    const char *root;      // mounted tracefs
    const char *proc;      // "/proc"
    const char *state_dir; // TRACEFS_STATE_DIR
    const char *instance;  // by name, created if it does not exist; NULL: one of our own
    bool main_buffer;      // rather than an instance
};

// 0, or a negative errno with a text that says what is missing and what would allow it. *ret is
// then empty.
int tracefs_open(const struct tracefs_options *options, struct tracefs *ret, struct err *err);

// Puts back what was changed, removes what was created. Nothing may hold files of the instance
// open.
void tracefs_close(struct tracefs *fs, const struct log *log);

// Paths are relative to the buffer's folder. Reads are bounded to 16 MiB; *ret is overwritten,
// owned by the caller and terminated. 0 or a negative errno.
int tracefs_read(const struct tracefs *fs, const char *path, struct strbuf *ret);
int tracefs_read_at(const char *folder, const char *path, struct strbuf *ret);

// Writes without remembering.
int tracefs_write(const struct tracefs *fs, const char *path, const char *text);

// Empties the ring buffer.
int tracefs_clear(const struct tracefs *fs);

// Writes, after the file's content has been remembered. Does nothing where the content is that
// already.
int tracefs_change(struct tracefs *fs, const char *path, const char *text);

// Adds a line to a file of the root, and remembers the line that takes it back.
int tracefs_append_root(struct tracefs *fs, const char *path, const char *line,
                        const char *undo_line);

// What a file of settings says, without marks: "[boot] global" is "boot", "0\n" is "0".
void tracefs_setting(struct strbuf *text);

// Undoes what dead processes left: instances named for them and journals that nobody holds. The
// number of things cleaned up. Quick when there is nothing.
unsigned tracefs_sweep(const char *root, const char *proc, const char *state_dir,
                       const struct log *log);
