// SPDX-License-Identifier: Apache-2.0
//
// Shared by the parts of linux.process_stats: the table of known processes (process_table.c), names
// (tree.c), and polled counters (poll.c). process_stats_source.c connects them to a session.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "producer/ground/process_life.h"
#include "producer/sources/process_stats/process_stats_texts.h"
#include "producer/sources/source.h"

#define STATUS_BYTES_MAX  (16u << 10) // the list of groups may be long
#define CMDLINE_BYTES_MAX (4u << 10)  // the rest is not recorded
#define N_PENDING_MAX     8192
#define N_ENDED_MAX       512
#define N_EXITED          1024
#define N_FREED_MAX       512
#define N_KNOWN_MIN       2048

// Files of a process that may stay open between polls.
enum kept_file {
    PROCESS_STATUS,
    PROCESS_OOM_SCORE_ADJ,
    N_PROCESS_FILES,
};

struct process {
    int32_t pid;
    uint32_t serial;     // distinguishes two owners of one pid
    bool kept;           // the trace has its names under its key
    bool written;        // kept, and not known to have changed since
    bool executed;       // another program since its names were written, perhaps
    bool with_cmdline;   // the written names include arguments
    bool is_shown;       // the trace has counters of the process
    bool no_memory;      // kernel threads, zombies
    bool unnamed;        // this poll met a new process, or a new name
    bool new_threads;    // this poll met another number of threads
    uint8_t n_skipped;   // polls since a process without memory was read
    uint32_t n_threads;  // number when they were last written
    uint32_t generation; // of the last walk over /proc that met the process
    uint64_t start_ticks;
    nsec_t named;       // time of its names in the trace
    nsec_t seen;        // time of the last poll that met the process
    uint32_t fds_round; // the last round that wrote its open files
    char comm[COMM_BYTES_MAX];
    int fds[N_PROCESS_FILES]; // owned; -1: not kept open
    struct process_counters last;
};

// The name that the trace has of a process.
struct former_name {
    char text[COMM_BYTES_MAX]; // "": none
    nsec_t time;
};

struct ended_task {
    int32_t tid;
    nsec_t due;     // end of the wait for its exit, at the earliest
    uint64_t round; // of the publication of exits, when it was looked up
    struct former_name former;
};

struct freed_task {
    int32_t tid;
    uint32_t cpu;
    nsec_t time; // 0: not freed yet
};

struct exited_task {
    int32_t tid;
    int32_t tgid;  // the process; 0: not known
    bool named;    // the trace has the name of this task, or will have it
    char name[16]; // as long as the kernel's names of tasks
    nsec_t time;
    struct freed_task freed;
};

// An ended task that is named, and not freed yet.
struct unfreed_task {
    int32_t tid;
    nsec_t named; // time of the name
};

// A free that must be written.
struct freed_entry {
    struct freed_task task;
    uint64_t key;              // of the task's name
    uint64_t former_key;       // of its former name; 0: none
    struct exited_task exited; // tid 0: the task is named already
};

struct process_stats {
    struct source_env env;
    const Pb__ProcessStatsConfig *config; // borrowed
    bool on_demand, with_rollup, with_dmabuf;
    uint64_t ns_per_tick;
    DIR *proc_dir; // owned

    struct map64 processes; // pid -> struct process, owned
    struct map64 threads;   // tid -> process_mark(), for written threads except main threads; with
                            // MARK_STALE if the thread may have changed since
    struct map64 seen_fds;  // pid << 32 | fd -> process_mark(), for written descriptors
    uint32_t generation, last_serial;
    size_t n_fds, n_fds_max; // kept open
    size_t n_known_max;      // processes and threads; a larger number starts a sweep
    bool has_orphans;        // a process has ended since process_end_orphans()
    nsec_t scan_time;        // timestamp of the current packets
    nsec_t fds_until;        // end of this look at open files (work_time.h)
    uint32_t fds_round;      // a round may take several looks
    bool fds_late, fds_told; // this look had no more time, and any look had none
    struct loop_timer *poller, *drainer;
    uint64_t n_missed; // polls that were left out
    uint32_t n_ttl_ticks, n_ticks;

    int32_t pending[N_PENDING_MAX]; // pids that were seen and must be looked up
    size_t n_pending;

    struct ended_task ended[N_ENDED_MAX]; // did not exist when looked up; the first is due first
    size_t n_ended;
    struct exited_task exited[N_EXITED];   // the last exits; direct-mapped by tid
    struct unfreed_task unfreed[N_EXITED]; // direct-mapped by tid
    int32_t seen[N_EXITED];                // tasks that are looked up, and not freed yet; by tid
    struct freed_entry freed[N_FREED_MAX];
    size_t n_freed;
    uint32_t last_ended;

    struct wire_writer *stats; // of the open ProcessStats packet, or NULL
    size_t stats_mark;
    uint64_t n_written; // processes, threads and polls

    char status[STATUS_BYTES_MAX];
    char text[CMDLINE_BYTES_MAX + 1];
};

static inline uint64_t process_mark(const struct process *process)
{
    return (uint64_t)process->serial << 32 | (uint32_t)process->pid;
}

// Keys of packets that survive the wrap of a ring. The key of a process is its process_mark(), so
// that two owners of a pid have two keys. The ids of tasks have 22 bits.
#define THREAD_KEY(mark, tid)                                                                      \
    (UINT64_C(1) << 63 | (uint64_t)(mark) >> 32 << 24 | ((uint64_t)(tid)&0xffffff))
#define ENDED_KEY(serial) (UINT64_C(1) << 62 | (uint64_t)(serial))
#define FREED_KEY(serial) (UINT64_C(1) << 61 | (uint64_t)(serial))

// Not part of a mark, whose lower half is a pid.
#define MARK_STALE (UINT64_C(1) << 31)

// process_table.c

// Returns the process with this process_mark(), or NULL if it has ended or the mark is stale.
const struct process *process_of_mark(const struct process_stats *ps, uint64_t mark);
// process_get() returns the known process or a new one; NULL if memory ran out.
struct process *process_get(struct process_stats *ps, int32_t pid);
struct process *process_find(const struct process_stats *ps, int32_t pid);
// Walks over the known processes: begin with *cursor 0; NULL at the end.
struct process *process_each(const struct process_stats *ps, size_t *cursor);
// Reads a file of the process into `buffer`. With `keep`, the file stays open between polls while
// descriptors are left: then -ESRCH means that the process has ended, even if another process has
// its pid. Returns 0 or a negative errno.
int process_read(struct process_stats *ps, struct process *process, enum kept_file file, bool keep,
                 char *buffer, size_t size, struct span *ret);
// Reads the process's stat. Returns false on failure.
bool process_read_times(const struct process_stats *ps, const struct process *process,
                        struct process_times *ret);
void process_close_files(struct process_stats *ps, struct process *process);
// Removes the process, and leaves its names in the trace.
void process_remove(struct process_stats *ps, struct process *process);
// The names under this key may be dropped once the ring has passed this moment.
void process_forget_names(struct process_stats *ps, uint64_t key);
// Ends the process: its names may be dropped once the ring has passed this moment.
void process_end(struct process_stats *ps, struct process *process);
// Ends the processes that the last walk over /proc did not meet.
void process_end_unmet(struct process_stats *ps);
// Ends the threads of ended processes.
void process_end_orphans(struct process_stats *ps);
// Ends the thread as process_end() ends a process. No effect for an unknown thread.
void process_end_thread(struct process_stats *ps, int32_t tid);
// If many processes and threads are known, walks over /proc and ends all that no longer exist.
void process_sweep(struct process_stats *ps);
// Marks everything to be written again.
void process_table_renew(struct process_stats *ps);
// Forgets everything and writes nothing.
void process_table_clear(struct process_stats *ps);

// tree.c

// Writes the name of `process` and, if wanted, of its threads. `status` is the parsed status of the
// process.
void tree_write_process(struct process_stats *ps, struct process *process,
                        const struct process_status *status);
void tree_write_new_threads(struct process_stats *ps, struct process *process,
                            const struct process_status *status);
// Writes a process or thread that another source has seen.
void tree_look_up(struct process_stats *ps, int32_t tid);
// Writes all of /proc.
void tree_write_all(struct process_stats *ps);

// ended.c

// Adds a task that is no longer in /proc. `process`: the known process, if the task is one;
// otherwise NULL.
void ended_add(struct process_stats *ps, int32_t tid, const struct process *process);
void ended_note_exit(struct process_stats *ps, const struct task_end *end);
void ended_note_free(struct process_stats *ps, const struct task_end *end);
// Notes that a task will be looked up.
void ended_note_seen(struct process_stats *ps, int32_t tid);
// Notes that a task has ended, and that the kernel may free the task later. `named` is the time of
// the task's name in the trace.
void ended_note_unfreed(struct process_stats *ps, int32_t tid, nsec_t named);
// Writes the ends of the freed tasks.
void ended_write_freed(struct process_stats *ps);
// Names the added tasks by their exits. Tasks that have waited for their exits in vain, and with
// `now` all tasks, are named by the kernel's list of names.
void ended_write(struct process_stats *ps, bool now);

// poll.c

// Ends the open packet of counters, if there is one: a writer has one packet at a time.
void poll_end_packet(struct process_stats *ps);
// Writes the end of the process into the trace, if the trace has counters of the process.
void poll_write_end(struct process_stats *ps, const struct process *process);
void poll_all(struct process_stats *ps);
// Writes the names of the files behind the file descriptors of all known processes.
void poll_fds_of_all(struct process_stats *ps);
