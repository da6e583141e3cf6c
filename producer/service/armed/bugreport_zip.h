// SPDX-License-Identifier: Apache-2.0
//
// A bugreport: one zip with traces, the memory files of /proc, the end of the kernel log, and
// index.txt, which lists the contents and the gaps. This module does not know sessions: the caller
// passes each trace as packets or as a file.
//
// If a source cannot be read, the index says so, and the report continues. If the zip cannot be
// written, the report fails and leaves no file behind.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define BUGREPORT_TRACE_DIR  "FS/data/misc/perfetto-traces/bugreport/"
#define BUGREPORT_TRACE_NAME "systrace.pftrace"

// Bytes before compression. The sum stays below the size that needs zip's 64-bit extension.
#define BUGREPORT_PROC_FILE_MAX  ((uint64_t)4 << 20)
#define BUGREPORT_KERNEL_LOG_MAX ((uint64_t)1 << 20)
#define BUGREPORT_TRACE_MAX      ((uint64_t)1 << 30)
#define BUGREPORT_TRACES_MAX     ((uint64_t)3 << 30)

struct bugreport;
struct path_end;

// Removes the incomplete report for `place` that process `pid` has left. Needs no memory.
void bugreport_partial_remove(const struct path_end *place, pid_t pid);

// Makes a file without a name in TMPDIR or the usual folder. Returns a descriptor (owned by the
// caller) or a negative errno.
int bugreport_temporary_file(void);

// Creates the zip in the folder of `path`, under a temporary name, readable by its owner only. For
// "-", the zip is made in a temporary folder, and copied to standard output at the end. `version`
// is the program's version. Goes through no link that path_walk() refuses. Returns 0 or a negative
// errno with text: -EEXIST if `path` is not a regular file.
int bugreport_new(const char *path, const char *version, struct bugreport **ret, struct err *err);
struct bugreport *bugreport_free(struct bugreport *report); // takes NULL, returns NULL

// Makes a file without a name, beside the zip if possible: /tmp may be in memory, which may be
// short. Returns a descriptor (owned by the caller) or a negative errno.
int bugreport_scratch_file(const struct bugreport *report);

// Adds vmstat, meminfo and similar files from `proc_root` ("/proc"), and the kernel messages of the
// last minutes from `kmsg_path` ("/dev/kmsg").
int bugreport_add_machine(struct bugreport *report, const char *proc_root, const char *kmsg_path,
                          struct err *err);

// Begins a trace. `file_name` comes from the session's config (NULL or empty: systrace.pftrace).
// The entry's name is made safe and unique.
int bugreport_trace_begin(struct bugreport *report, const char *file_name, struct err *err);
// Adds a trace file, from its beginning. Returns -EFBIG if the file is too large: the entry ends
// after the last packet that fits.
int bugreport_trace_add_file(struct bugreport *report, int fd, struct err *err);
// Ends the trace. The index shows `about`, a description of the trace, and `problem` (NULL: none).
int bugreport_trace_end(struct bugreport *report, const char *about, const char *problem,
                        struct err *err);

// Returns the name of the last begun entry in the zip.
const char *bugreport_entry_name(const struct bugreport *report);

// Adds a text as a separate file.
int bugreport_add_text(struct bugreport *report, const char *name, const char *text, size_t size,
                       struct err *err);

// Adds a line, without newline, to the index.
__attribute__((format(printf, 2, 3))) void bugreport_note(struct bugreport *report,
                                                          const char *format, ...);

// Writes the index and gives the file its name. *ret_size_bytes is the size of the zip.
int bugreport_finish(struct bugreport *report, uint64_t *ret_size_bytes, struct err *err);
