// SPDX-License-Identifier: Apache-2.0
//
// A bugreport: one zip with traces, the memory files of /proc, the end of the kernel log, and
// index.txt, which lists the contents and the gaps. This module knows nothing of sessions: the
// caller hands a trace over packet by packet.
//
// A failure to read goes into the index, and the report goes on. A failure to write is an error,
// and no file is left behind.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define BUGREPORT_TRACE_DIR  "FS/data/misc/perfetto-traces/bugreport/"
#define BUGREPORT_TRACE_NAME "systrace.pftrace"

// Bytes before compression. The whole stays below what needs zip's 64-bit extension.
#define BUGREPORT_PROC_FILE_MAX  ((uint64_t)4 << 20)
#define BUGREPORT_KERNEL_LOG_MAX ((uint64_t)1 << 20)
#define BUGREPORT_TRACE_MAX      ((uint64_t)1 << 30)
#define BUGREPORT_TRACES_MAX     ((uint64_t)3 << 30)

struct bugreport;

// The name that a report for `path` has until it is complete, while process `pid` writes it. 0 or
// -ENAMETOOLONG.
int bugreport_partial_path(char *to, size_t size, const char *path, pid_t pid);

// A file without a name in TMPDIR, or where temporary files are: the caller's, or a negative errno.
int bugreport_temporary_file(void);

// Creates the zip beside `path`, under a temporary name and for its owner only. "-": somewhere
// temporary, then to standard output. `version` is that of the program. -EEXIST: something is at
// `path` that is no regular file.
int bugreport_new(const char *path, const char *version, struct bugreport **ret, struct err *err);
struct bugreport *bugreport_free(struct bugreport *report); // takes NULL, returns NULL

// The same beside the zip, if that is possible: /tmp may be memory, of which there may be little.
int bugreport_scratch_file(const struct bugreport *report);

// Copies vmstat, meminfo and their like from `proc_root` ("/proc"), and what the kernel said in the
// last minutes from `kmsg_path` ("/dev/kmsg").
int bugreport_add_machine(struct bugreport *report, const char *proc_root, const char *kmsg_path,
                          struct err *err);

// A trace. `file_name` is what the session's config says (NULL or empty: systrace.pftrace); it is
// made safe, and unique in the zip.
int bugreport_trace_begin(struct bugreport *report, const char *file_name, struct err *err);
// Adds a packet, without its framing. -EFBIG: the trace has its maximum size, the packet is not
// taken, the trace can be ended.
int bugreport_trace_add(struct bugreport *report, const void *packet, size_t size, struct err *err);
// Adds a trace file, from its beginning. -EFBIG: it is too large, and was cut behind the last
// packet that there is room for.
int bugreport_trace_add_file(struct bugreport *report, int fd, struct err *err);
// `about` says for the index what it is, `problem` (NULL: none) what is wrong with it.
int bugreport_trace_end(struct bugreport *report, const char *about, const char *problem,
                        struct err *err);

// The name in the zip of what was begun last.
const char *bugreport_entry_name(const struct bugreport *report);

// A text of the caller's, as a file of its own.
int bugreport_add_text(struct bugreport *report, const char *name, const char *text, size_t size,
                       struct err *err);

// A line for the index, without newline.
__attribute__((format(printf, 2, 3))) void bugreport_note(struct bugreport *report,
                                                          const char *format, ...);

// Writes the index, and gives the file its name. *ret_size_bytes is that of the zip.
int bugreport_finish(struct bugreport *report, uint64_t *ret_size_bytes, struct err *err);
