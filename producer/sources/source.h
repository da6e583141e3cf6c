// SPDX-License-Identifier: Apache-2.0
//
// A data source writes packets about one part of the system. Each source is one file (or folder)
// here that defines a `const struct source_class`, and one row in meson.build beside this file.
// Sources know nothing of sessions, files or triggers: they get a packet writer, a loop and a
// config.
//
// The life of a source: open (parse and check the config, open files, change no kernel state) ->
// perhaps prepare -> start -> flush* -> stop -> close. After a failed open() there is nothing to
// close. After a failed start, close() is still called. A source that can deliver only a part (no
// permission, kernel too old) logs one line for each missing part, with the remedy, and delivers
// the rest. open() fails only if nothing is left.
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
    struct source_shares *shares;      // of this user; NULL: no limit
    struct foreign_helper *helper;     // runs the session's blocking work; NULL: none
    // The trace keeps the names of tasks that have ended: another buffer, or the kept beginning of
    // a ring, may have events of these tasks.
    bool keeps_ended;
    // No other source of the session names tasks that ended before they could be looked up.
    bool names_ended;
};

// The state of a running source, for the progress line and `status`.
struct source_counts {
    uint64_t events;          // in the source's own unit: ftrace events, samples, processes
    uint64_t events_lost;     // by the kernel or by a full buffer
    uint64_t readings_missed; // left out, because the next reading was due already
    const char *problem;      // requested data that cannot be recorded; NULL: none. Borrowed
};

struct source; // each source defines a struct of its own, and casts

// The program that runs a session, as bits.
enum {
    RUNS_ALONE = 1,      // a recorder without a service
    RUNS_ARMED = 2,      // the daemon, for a config of its own
    RUNS_FOR_CLIENT = 4, // the daemon, for a client
};

// A config field that is accepted but not read.
struct config_unread {
    const ProtobufCMessageDescriptor *message;
    const char *field;
    bool warn;       // the user would otherwise notice only in the trace
    const char *why; // text that continues "FIELD: "
    unsigned only;   // RUNS_... bits of the sessions that do not read the field; 0: all
};

// The name of a field of DataSourceConfig. A name without a field does not compile.
#define SOURCE_CONFIG(field) (&#field[0 * sizeof(((Pb__DataSourceConfig *)0)->field)])

struct source_class {
    const char *name;           // the name in configs: "linux.sys_stats"
    const char *const *aliases; // further names, NULL-terminated; may be NULL
    const char *summary;        // one line for --help
    // SOURCE_CONFIG() of the message that only this source reads; NULL: none. The source reads each
    // field of the message, or names the field in `unread`.
    const char *config;
    const struct config_unread *unread; // ends with a field of NULL; may be NULL
    // Calls `warn` for each setting without effect. `what` continues the path of the source's
    // config. May be NULL.
    void (*check)(const Pb__DataSourceConfig *config,
                  void (*warn)(void *userdata, const char *what), void *userdata);

    // `config` is borrowed until close(). The caller owns *ret and releases it with close(). Texts
    // in `err` do not begin with the source's name: the caller adds it.
    int (*open)(const struct source_env *env, const Pb__DataSourceConfig *config,
                struct source **ret, struct err *err);
    // Acquires the kernel resources for start(), in a session that waits for a trigger: the trigger
    // comes when memory is short, and start() must be quick. Records nothing and changes nothing
    // that others use. After a failure, start() tries again. May be NULL.
    int (*prepare)(struct source *source, struct err *err);
    int (*start)(struct source *source, struct err *err);
    // Writes all data that the kernel holds now into the buffer. May be NULL.
    void (*flush)(struct source *source);
    // Dumps now, in a source that dumps only from time to time. May be NULL.
    void (*dump)(struct source *source);
    // Dumps in a forked copy of the process, just after a flush in the process. Must not use
    // descriptors, other processes or memory that both share, except for reading. May be NULL.
    void (*dump_copy)(struct source *source);
    // Writes the last samples and statistics, and restores the kernel's state. Writes nothing
    // afterwards.
    void (*stop)(struct source *source);
    // Called before the buffer drops a packet of this source between the two kept ends of a ring.
    // Must not write. May be NULL.
    void (*lost)(struct source *source, const uint8_t *packet, size_t size);
    struct source *(*close)(struct source *source); // takes NULL, returns NULL
    void (*counts)(const struct source *source, struct source_counts *ret); // may be NULL
    // Writes again all names, descriptors and interned data that packets refer to. May be NULL.
    void (*clear_state)(struct source *source);
};

extern const struct source_class
    *const source_classes[]; // NULL-terminated, in the order in which sources start

// As loop_add_timer(), in the share of the recording's user.
int source_add_timer(const struct source_env *env, nsec_t first, nsec_t period, loop_fn fire,
                     void *userdata, struct loop_timer **ret);

// Returns the time (CLOCK_MONOTONIC) until which a source may wait in the loop: `most` from now, or
// less if the user's recordings have a share. Flushes, stops and timers are counted in the share.
nsec_t source_wait_until(const struct source_env *env, nsec_t most);

// Returns how often the timer of the present call was due before, without a call.
static inline uint64_t source_missed(const struct source_env *env)
{
    return loop_get_call(env->loop)->n_due - 1;
}

// Returns whether `name` is the class's name or one of its aliases.
bool source_class_is(const struct source_class *class, const char *name);
const struct source_class *source_class_find(const char *name); // NULL: no such source

// Returns the class that reads the field of DataSourceConfig, or NULL.
const struct source_class *source_class_of_config(const char *field);

// Fills in the names and aliases of all classes, NULL-terminated: at most `n` - 1 names, n > 0.
void source_class_names(const char **ret, size_t n);
