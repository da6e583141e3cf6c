// SPDX-License-Identifier: Apache-2.0
//
// A data source turns something that the kernel knows into packets. Each source is one file (or
// folder) here that defines a `const struct source_class`, and one row in source_classes[]
// (registry.c). Sources know nothing of sessions, files or triggers: they get a packet writer, a
// loop and a config.
//
// The life of a source: open (parse and check the config, open files, change no kernel state) ->
// perhaps prepare -> start -> flush* -> stop -> close. A failed open leaves nothing behind. After a
// failed start, close() is still called. If a source can deliver only a part (no permission, kernel
// too old), it logs one line for each missing part, with what would permit it, and delivers the
// rest. open() fails only if nothing at all is left.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/sources/pid_feed.h"
#include "producer/trace/packet_writer.h"
#include "protos/config/data_source_config.pb-c.h"

struct foreign;
struct foreign_helper;
struct heap_host;
struct requester;

// Roots of the kernel's file systems; a test may replace them by folders. Borrowed, without
// trailing slash.
struct source_roots {
    const char *proc;    // "/proc"
    const char *sys;     // "/sys"
    const char *tracefs; // "/sys/kernel/tracing"; NULL: not mounted, and cannot be mounted
    const char *run;     // folder for data that survive a crash; NULL: "/run/mmtrace"
    struct heap_host
        *heap_host;          // shared by the heap profiles of this process; NULL: no heap profiles
    struct foreign *foreign; // makes helpers (foreign/helper.h); NULL: sources have no helpers
};

struct source_env {
    struct loop *loop;            // borrowed, as all members; all outlive the source
    struct packet_writer *writer; // a sequence of its own, into the target buffer of the config
    const struct log *log;
    const struct source_roots *roots;
    struct pid_feed *pids;
    const struct requester *requester; // the user of this recording; NULL: root
    struct foreign_helper *helper;     // does what may block for the session; NULL: none
    // Names must stay after their owner has ended: events about it may be in another buffer, or in
    // the beginning that a ring keeps.
    bool keeps_ended;
    // No other source of the session names tasks that ended before they could be looked up.
    bool names_ended;
};

// The state of a running source, for the progress line and `status`.
struct source_counts {
    uint64_t events;      // in the source's own unit: ftrace events, samples, processes
    uint64_t events_lost; // by the kernel, by a full buffer, or missed readings
    const char *problem;  // requested, but impossible; NULL: nothing. Borrowed
};

struct source; // each source defines a struct of its own, and casts

// What runs a session, as bits.
enum {
    RUNS_ALONE = 1,      // a recorder without a service
    RUNS_ARMED = 2,      // the daemon, for a config of its own
    RUNS_FOR_CLIENT = 4, // the daemon, for a client
};

// A field of a config that is accepted and not read.
struct config_unread {
    const ProtobufCMessageDescriptor *message;
    const char *field;
    bool warn;       // where it is set: somebody would only notice in the trace
    const char *why; // reads on behind "FIELD: "
    unsigned only;   // RUNS_...: where the field is not read; 0: nowhere
};

// The name of a field of DataSourceConfig, which exists.
#define SOURCE_CONFIG(field) (&#field[0 * sizeof(((Pb__DataSourceConfig *)0)->field)])

struct source_class {
    const char *name;           // the name in configs: "linux.sys_stats"
    const char *const *aliases; // further names, NULL-terminated; may be NULL
    const char *summary;        // one line for --help
    // SOURCE_CONFIG() of what this source reads and no other does; NULL: it has no such field. All
    // fields of that message are read by this source, or stand in `unread`.
    const char *config;
    const struct config_unread *unread; // ends with a field of NULL; may be NULL
    // Calls `warn` for what in the config has no effect; `what` goes on behind the path of the
    // source's config. May be NULL.
    void (*check)(const Pb__DataSourceConfig *config,
                  void (*warn)(void *userdata, const char *what), void *userdata);

    // `config` is borrowed until close(). The caller owns *ret and releases it with close(). Texts
    // in `err` do not begin with the source's name: the caller adds it.
    int (*open)(const struct source_env *env, const Pb__DataSourceConfig *config,
                struct source **ret, struct err *err);
    // Acquires from the kernel what start() needs, for a session that waits for a trigger: the
    // trigger comes when memory is short, and start() must be quick. Records nothing and changes
    // nothing that others use. After a failure, start() tries again itself. May be NULL.
    int (*prepare)(struct source *source, struct err *err);
    int (*start)(struct source *source, struct err *err);
    // Brings everything that the kernel holds now into the buffer. May be NULL.
    void (*flush)(struct source *source);
    // For a source that dumps only from time to time: dumps now. May be NULL.
    void (*dump)(struct source *source);
    // Writes the last samples and statistics, and restores the kernel's state. Writes nothing
    // afterwards.
    void (*stop)(struct source *source);
    // The buffer is about to drop a packet of this source that fell out between the two kept ends
    // of a ring. Must not write. May be NULL.
    void (*lost)(struct source *source, const uint8_t *packet, size_t size);
    struct source *(*close)(struct source *source); // takes NULL, returns NULL
    void (*counts)(const struct source *source, struct source_counts *ret); // may be NULL
    // Writes again everything that packets refer to: names, descriptors, interned data. May be
    // NULL.
    void (*clear_state)(struct source *source);
};

extern const struct source_class
    *const source_classes[]; // NULL-terminated, in the order in which sources start

// Returns whether `name` is the class's name or one of its aliases.
bool source_class_is(const struct source_class *class, const char *name);
const struct source_class *source_class_find(const char *name); // NULL: no such source

// Returns the class that reads the field of DataSourceConfig, or NULL.
const struct source_class *source_class_of_config(const char *field);

// Fills in the names and aliases of all classes, NULL-terminated: at most `n` - 1 names, n > 0.
void source_class_names(const char **ret, size_t n);
