// SPDX-License-Identifier: Apache-2.0
//
// The kernel's tracing file system, and one ring buffer in it: an instance of our own, a named
// instance, or the main buffer.
//
// Every change is undone at the end. An instance of our own is removed. For other buffers the old
// content of each changed file is noted first, also in a journal on disk. After a crash, the next
// run restores the files from the journal.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/ground/run_folder.h"

#define TRACEFS_STATE_DIR RUN_FOLDER // folder of the journals, unless a test sets another one

struct tracefs_undo {
    char *path;  // owned; relative to the root
    char *value; // owned; NULL: an instance to remove
    bool append; // the value is a line to append, not the file's content
};

VEC_DEFINE(tracefs_undos, struct tracefs_undo);

struct tracefs {
    char *root; // owned: "/sys/kernel/tracing"
    char *path; // owned: the buffer's folder; `root` for the main buffer
    bool created;
    int journal_fd; // -1: none
    char *journal;  // owned
    struct tracefs_undos undo;
};

struct tracefs_options {
    const char *root;      // mounted tracefs
    const char *proc;      // "/proc"
    const char *state_dir; // TRACEFS_STATE_DIR
    const char *instance;  // name; created if missing; NULL: an instance of our own
    bool main_buffer;      // instead of an instance
};

// Returns 0, or a negative errno with a text that names the obstacle and the remedy.
int tracefs_open(const struct tracefs_options *options, struct tracefs *ret, struct err *err);

// Restores all changed files and removes the instance that tracefs_open() made. No file of the
// instance may be open.
void tracefs_close(struct tracefs *fs, const struct log *log);

// Read a file: at `path` in the buffer's folder, or with a whole path. Reads are limited to 16 MiB.
// *ret is overwritten, terminated, and owned by the caller. Return 0 or a negative errno.
int tracefs_read(const struct tracefs *fs, const char *path, struct strbuf *ret);
__attribute__((format(printf, 2, 3))) int tracefs_read_at(struct strbuf *ret, const char *format,
                                                          ...);
// Returns whether the file begins with a number.
bool tracefs_read_u64(const struct tracefs *fs, const char *path, uint64_t *ret);

// Empties the ring buffer.
int tracefs_clear(const struct tracefs *fs);

// Notes the file's content, then writes `text`. Does nothing if the content is the same. Returns 0
// or a negative errno.
int tracefs_change(struct tracefs *fs, const char *path, const char *text);

// Appends a line to a file of the root, and notes the line that undoes it.
int tracefs_append_root(struct tracefs *fs, const char *path, const char *line,
                        const char *undo_line);

// Reduces the content of a settings file to its value: "[boot] global" becomes "boot", "0\n"
// becomes "0".
void tracefs_setting(struct strbuf *text);

// Undoes the changes of processes that have ended: removes their instances, and restores files from
// journals that no process holds. Returns the number of removed instances and journals.
unsigned tracefs_sweep(const char *root, const char *proc, const char *state_dir,
                       const struct log *log);
