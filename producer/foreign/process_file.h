// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc/PID whose open or read takes a lock that the process can hold as long as it likes:
// cmdline, maps, map_files, smaps and smaps_rollup (the lock of its memory map), and also stat,
// ns/*, root and the links in fd (a lock of execve). A process holds the lock of its memory map in
// a page fault on a file of a file system that never answers, and the lock of execve while it waits
// for the map. A process that reclaims memory in fork() holds the lock of its map for a long time,
// too.
//
// A thread of its own reads these files. The caller waits 0.1 s at most, or 0.5 s while the thread
// computes or waits for a processor. All callers together wait a second at once, and then a tenth
// of the time. A thread that is late is left behind: it ends when the process releases the lock, or
// with this program, because the wait ends at SIGKILL. A helper (helper.h) is not needed: the
// thread enters no file system but /proc.
//
// While PROCESS_FILE_LATE_EACH threads are late for processes of one user (payer.h) other than
// root, no process of this user is read. While PROCESS_FILE_LATE_ALL threads are late, no process
// is read.
//
// Only the loop's thread, or the only thread of a program, calls these functions.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/nsec.h"
#include "producer/ground/maps.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#define PROCESS_FILE_LATE_EACH 2
#define PROCESS_FILE_LATE_ALL  16
#define PROCESS_FILE_PIECE     32768 // maximum size of one read
#define PROCESS_CALL_BYTES     256

// A file that is open for reading.
struct process_file {
    const char *proc; // borrowed
    int32_t pid;
    int fd; // owned; -1: not open, or left to a late thread
};

// Opens PROC/PID/NAME. `flags` may have O_PATH. Returns 0 or a negative errno: -ETIMEDOUT if the
// process is late; -EAGAIN if it is not read because threads are late.
int process_file_open(struct process_file *ret, const char *proc, int32_t pid, const char *name,
                      int flags);
// Reads at most PROCESS_FILE_PIECE bytes after the last read, as read(2) does. Returns 0 at the
// end, or a negative errno, as process_file_open() does. After -ETIMEDOUT the file is closed.
ssize_t process_file_read(struct process_file *file, char *buffer, size_t size);
// Opens PROC/PID/maps, and has `reader` read the file: `file` must stay until the last maps_next().
int process_file_open_maps(struct process_file *file, struct line_reader *reader, const char *proc,
                           int32_t pid);
// No effect if the file is not open.
void process_file_close(struct process_file *file); // fit for CLEANUP()

// Reads the first bytes of a file, terminated: at most `size` - 1 and PROCESS_FILE_PIECE. Returns
// the size or a negative errno, as process_file_open() does; after an error the text is empty.
ssize_t process_file_text(char *buffer, size_t size, const char *proc, int32_t pid,
                          const char *name);
// As process_file_text(), without the reason of a failure.
struct span process_file_span(char *buffer, size_t size, const char *proc, int32_t pid,
                              const char *name);

// Returns whether an error of these functions passes: ask again later. It does not mean that the
// process has no such file, or has ended.
static inline bool process_file_is_late(ssize_t error)
{
    return error == -ETIMEDOUT || error == -EAGAIN;
}

// Returns the text of an error of these functions.
const char *process_file_strerror(ssize_t error);

// Reads stat. Returns 0 or a negative errno, as process_file_open() does; another errno means that
// the process is gone.
int process_life_in_time(const char *proc, int32_t pid, struct process_life *ret);

// Returns why a process runs no program, or NULL: it is gone, or a thread of the kernel. NULL, too,
// if the process cannot be read in time.
const char *process_lacks_program(const char *proc, uint64_t pid);

// Has the thread call `call` with a copy of `argument` (at most PROCESS_CALL_BYTES), for system
// calls that take the locks of the process. With `size` 0, the result is a descriptor, which is
// closed if the call is late. Otherwise `call` writes at most `size` bytes (at most
// PROCESS_FILE_PIECE) to `bytes`, which are copied to `buffer`, and returns their number. Returns
// the result or a negative errno, as process_file_open() does.
typedef int (*process_call_fn)(const void *argument, char *bytes, size_t size);
int process_call(const char *proc, int32_t pid, process_call_fn call, const void *argument,
                 size_t argument_size, char *buffer, size_t size);

// Ends the idle thread. The next call starts another one, with the rights that the caller has then.
void process_files_end(void);

// Makes these functions wait as long as a process likes, in a process that may wait: a helper.
void process_files_may_wait(void);

// Returns 1 if argv[0] of the process, or its part after the last slash, matches one of the
// patterns (fnmatch); 0 if none matches; or a negative errno, as process_file_open() does: -ENODATA
// if the process has no command line.
int process_is_called(const char *proc, int32_t pid, char *const *patterns, size_t n);
