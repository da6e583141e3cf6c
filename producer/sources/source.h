// SPDX-License-Identifier: Apache-2.0
//
// A data source: turns something that the kernel knows into packets. Each is NAME_source.c or a
// folder NAME here, which defines `const struct source_class NAME_class`, and a row in meson.build.
// CONTRIBUTING.md has the whole list of steps. Sources know nothing of sessions, files or triggers:
// they get a packet writer, a loop and a config.
//
// Life: open (parse and check the config, open files, no kernel state changes) -> perhaps prepare
// -> start -> flush* -> stop -> close. After a failed open nothing is left behind; after a failed
// start, close() is still called. A source that can deliver only a part (no permission, kernel too
// old) says so with one log line per missing part, and what would allow it, and delivers the rest;
// only when nothing at all is left, open() fails.
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

// Roots of the kernel's file systems, replaceable by directories of a test. Borrowed, no trailing
// slash.
struct source_roots {
    const char *proc;            // "/proc"
    const char *sys;             // "/sys"
    const char *tracefs;         // "/sys/kernel/tracing"; NULL if it is not mounted and cannot be
    const char *run;             // where to keep what outlives a crash; NULL: "/run/mmtrace"
    struct heap_host *heap_host; // what heap profiles of this process share; NULL: none are made
    struct foreign *foreign;     // makes helpers (foreign/helper.h); NULL: sources have none
};

struct source_env {
    struct loop *loop;            // borrowed, as everything here; all outlive the source
    struct packet_writer *writer; // a sequence of its own, into the config's target buffer
    const struct log *log;
    const struct source_roots *roots;
    struct pid_feed *pids;
    const struct requester *requester; // for whom this is recorded; NULL: root
    struct foreign_helper *helper;     // does for the session what may block; NULL: nobody does
    // Names stay when their owner has ended: events about it may be in another buffer, or in the
    // beginning that a ring keeps.
    bool keeps_ended;
    // Nothing else in the session says who a task was that ended before it could be looked up.
    bool names_ended;
};

// What a running source has to show on a progress line and in `status`.
struct source_counts {
    uint64_t events;      // ftrace events, samples, processes: what the source counts in
    uint64_t events_lost; // by the kernel, by a full buffer, or readings that were missed
    const char *problem;  // what it was asked for and could not do at all; NULL: nothing. Borrowed
};

struct source;

// A field of a config that is accepted and not read.
struct config_unread {
    const ProtobufCMessageDescriptor *message;
    const char *field;
    bool warn;       // where it is set: somebody would only notice in the trace
    const char *why; // reads on behind "FIELD: "
};

// The name of a field of DataSourceConfig, which exists.
#define SOURCE_CONFIG(field) (&#field[0 * sizeof(((Pb__DataSourceConfig *)0)->field)])

struct source_class {
    const char *name;           // as configs name it: "linux.sys_stats"
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

    // `config` is borrowed until close(). *ret is owned by the caller and released by close().
    // Texts in `err` do not begin with the source's name: the caller puts it in front.
    int (*open)(const struct source_env *env, const Pb__DataSourceConfig *config,
                struct source **ret, struct err *err);
    // Takes from the kernel what start() needs, for a session that waits for a trigger: that comes
    // when memory is short, and start() should be quick. Nothing is recorded yet and nothing that
    // others use changes. After a failure start() tries itself. May be NULL.
    int (*prepare)(struct source *source, struct err *err);
    int (*start)(struct source *source, struct err *err);
    // Brings everything that the kernel holds at this moment into the buffer. May be NULL.
    void (*flush)(struct source *source);
    // Somebody wants to see now what there is so far, of a source that shows it from time to time
    // only. May be NULL.
    void (*dump)(struct source *source);
    // Last samples and statistics; the kernel is left as it was found. Nothing is written after
    // this.
    void (*stop)(struct source *source);
    // A packet of this source that its buffer gives up although it should have been kept: what fell
    // out between the two ends of a flood. Nothing may be written now. May be NULL.
    void (*lost)(struct source *source, const uint8_t *packet, size_t size);
    struct source *(*close)(struct source *source); // takes NULL, returns NULL
    void (*counts)(const struct source *source, struct source_counts *ret); // may be NULL
    // Write everything again that packets refer to: names, descriptors, interned data. May be NULL.
    void (*clear_state)(struct source *source);
};

// The first member of every source's own struct.
struct source {
    const struct source_class *class;
};

extern const struct source_class
    *const source_classes[]; // NULL-terminated, in the order sources start: the rows of meson.build

// Whether `name` is the class's own or one of its aliases.
bool source_class_is(const struct source_class *class, const char *name);
const struct source_class *source_class_find(const char *name); // NULL: nobody provides it

// The class that reads the field of DataSourceConfig; NULL: nobody does.
const struct source_class *source_class_of_config(const char *field);

// The names and aliases of all classes, NULL-terminated: at most `n` - 1 of them, n > 0.
void source_class_names(const char **ret, size_t n);
