// SPDX-License-Identifier: Apache-2.0
//
// What the parts of linux.process_stats share: the table of known processes (process_table.c),
// names (tree.c), and polled counters (poll.c). process_stats_source.c ties them to a session.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "producer/sources/process_stats/process_stats_texts.h"
#include "producer/sources/source.h"

#define STATUS_BYTES_MAX  (16u << 10) // the list of groups may be long
#define CMDLINE_BYTES_MAX (4u << 10)  // the rest is not recorded
#define N_PENDING_MAX     8192
#define N_ENDED_MAX       512
#define N_KNOWN_MIN       2048

// Files of a process that may stay open from poll to poll.
enum process_file {
    PROCESS_STATUS,
    PROCESS_OOM_SCORE_ADJ,
    PROCESS_STAT,
    N_PROCESS_FILES,
};

struct process {
    int32_t pid;
    uint32_t serial;     // tells apart two owners of one pid
    bool kept;           // names are in the trace under its key
    bool written;        // and nothing is known to have changed since
    bool with_cmdline;   // what was written had arguments
    bool is_shown;       // counters of it are in the trace
    bool no_memory;      // kernel threads, zombies
    bool unnamed;        // this poll met it for the first time, or under a new name
    bool new_threads;    // this poll met another number of threads
    uint8_t n_skipped;   // polls since one without memory was looked at
    uint32_t n_threads;  // when they were last written
    uint32_t generation; // of the last walk over /proc that met it
    uint64_t start_ticks;
    nsec_t seen; // by the last poll that met it
    char comm[COMM_BYTES_MAX];
    int fds[N_PROCESS_FILES]; // owned; -1: not kept open
    struct process_counters last;
};

struct process_stats {
    struct source source;
    struct source_env env;
    const Pb__ProcessStatsConfig *config; // borrowed
    bool on_demand, with_rollup, with_dmabuf;
    uint64_t ns_per_tick;
    DIR *proc_dir; // owned

    struct map64 processes; // pid -> struct process, owned
    struct map64 threads;  // tid -> process_mark(), for threads that are not main and were written;
                           // with MARK_STALE where that may have changed since
    struct map64 seen_fds; // pid << 32 | fd -> process_mark(), for those that were written
    uint32_t generation, last_serial;
    size_t n_fds, n_fds_max; // kept open
    size_t n_known_max;      // processes and threads; beyond, the dead are swept out
    bool has_orphans;        // a process has ended since process_end_orphans()
    nsec_t scan_time;        // timestamp of what is being written
    struct loop_timer *poller, *drainer;
    uint32_t n_ttl_ticks, n_ticks;

    int32_t pending[N_PENDING_MAX]; // pids that were seen and are to be looked up
    size_t n_pending;

    int32_t ended[N_ENDED_MAX]; // tasks that were gone when they were looked up
    size_t n_ended;
    nsec_t ended_due; // not looked for before

    struct wire_writer *stats; // of the open ProcessStats packet, or NULL
    size_t stats_mark;
    uint64_t n_written; // processes, threads and polls

    char status[STATUS_BYTES_MAX];
    char text[CMDLINE_BYTES_MAX];
};

// Keys of what outlives the ring: a process has its pid.
#define THREAD_KEY(tid) (UINT64_C(1) << 32 | (uint64_t)(tid))

static inline uint64_t process_mark(const struct process *process)
{
    return (uint64_t)process->serial << 32 | (uint32_t)process->pid;
}

// Not part of a mark: its lower half is a pid.
#define MARK_STALE (UINT64_C(1) << 31)

// process_table.c

// The process that process_mark() was taken of, or NULL if it has ended or the mark is stale.
const struct process *process_of_mark(const struct process_stats *ps, uint64_t mark);
// The known process, or a new one; NULL: no memory.
struct process *process_get(struct process_stats *ps, int32_t pid);
struct process *process_find(const struct process_stats *ps, int32_t pid);
// The text of a file of the process, in `buffer`. From poll to poll the file stays open where
// there are descriptors for it (`keep`); then -ESRCH tells that the process has ended, even if
// another one has taken its pid.
int process_read(struct process_stats *ps, struct process *process, enum process_file file,
                 bool keep, char *buffer, size_t size, struct span *ret);
void process_close_files(struct process_stats *ps, struct process *process);
// The process has ended: its names may go once the ring has passed this moment.
void process_end(struct process_stats *ps, struct process *process);
// Ends what the last walk over /proc did not meet.
void process_end_unmet(struct process_stats *ps);
// Ends the threads of processes that have ended.
void process_end_orphans(struct process_stats *ps);
// The thread has ended, as process_end(). Nothing happens where it is not known.
void process_end_thread(struct process_stats *ps, int32_t tid);
// Walks over /proc to end the processes and threads that have gone unnoticed, when many have piled
// up.
void process_sweep(struct process_stats *ps);
// Everything has to be written again.
void process_table_renew(struct process_stats *ps);
// Forgets everything; nothing is written.
void process_table_clear(struct process_stats *ps);
// The next process of a walk over /proc, begun with rewinddir(); 0 at the end.
int32_t next_pid(DIR *dir);

// tree.c

// Writes the name of `process` and, where they are wanted, of its threads. `status` is its status.
void tree_write_process(struct process_stats *ps, struct process *process,
                        const struct process_status *status);
void tree_write_new_threads(struct process_stats *ps, struct process *process,
                            const struct process_status *status);
// A process or thread that another source has seen.
void tree_look_up(struct process_stats *ps, int32_t tid);
// All of /proc.
void tree_write_all(struct process_stats *ps);

// ended.c

// A task that nothing knows and /proc has no more.
void ended_add(struct process_stats *ps, int32_t tid);
// Names them as the kernel's list of names does. `now`: also if that was done a moment ago.
void ended_write(struct process_stats *ps, bool now);

// poll.c

// Ends the packet of counters that is open, if one is: a writer has one packet at a time.
void poll_end_packet(struct process_stats *ps);
// The process has ended: if there are counters of it in the trace, says so there.
void poll_write_end(struct process_stats *ps, const struct process *process);
void poll_all(struct process_stats *ps);
// Names of the files behind the file descriptors of all known processes.
void poll_fds_of_all(struct process_stats *ps);
