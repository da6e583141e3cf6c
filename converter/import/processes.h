// SPDX-License-Identifier: Apache-2.0
//
// Processes and threads over the time of the trace. The kernel reuses pids and tids; each life has
// its own upid or utid, in order of appearance. 0 is the idle process and its thread; further
// machines have further idle processes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/args.h"
#include "converter/tables/database.h"

// The source of a name, worst first. A worse source never replaces a better one.
enum name_source {
    NAME_OTHER,
    NAME_FTRACE,       // the kernel's comm
    NAME_PROCESS_TREE, // /proc
    NAME_TRACK_TYPE,   // kind of thread, from a track descriptor
    NAME_TRACK,        // a track descriptor
    NAME_CONSTANT,     // a name that needs no trace
};

// The source of a name of a process, worst first.
enum process_name_source {
    PROCESS_NAME_OTHER,
    PROCESS_NAME_TYPE,     // Chrome's kind of process
    PROCESS_NAME_TRACK,    // a track descriptor
    PROCESS_NAME_RENDERER, // Chrome's kind of a process that shows pages
    PROCESS_NAME_SYSTEM,
};

#define UTID_NONE (-1)
#define UPID_NONE (-1)

struct thread {
    int64_t tid, start_ts, end_ts;
    int64_t upid;         // UPID_NONE: not known (yet)
    int64_t older;        // utid of an earlier life of the tid that has not ended, or UTID_NONE
    uint32_t n_older;     // upper bound of the number of older lives
    int64_t next_sibling; // next thread of the process, or UTID_NONE
    int64_t peer;   // next in the ring of threads that share an unknown process; itself if alone
    int64_t leader; // towards the ring's representative; itself at the end
    int64_t first_child; // first process that waits for this thread's process, or UPID_NONE
    uint32_t machine;
    uint32_t name; // in strings; STRSET_NONE: none
    bool has_start, has_end, has_main, is_main, is_idle, has_sort_index;
    uint8_t name_source;
    int32_t sort_index; // hint to viewers
};
VEC_DEFINE(thread_vec, struct thread);

// A boolean; unknown if the trace lacks the value
enum process_fact { FACT_UNKNOWN, FACT_FALSE, FACT_TRUE };

struct process {
    int64_t pid, start_ts, end_ts, parent_upid;
    int64_t first_thread; // head of the chain of its threads, or UTID_NONE
    int64_t next_child;   // next process that waits for the same parent thread, or UPID_NONE
    uint32_t machine;
    uint32_t uid, name, cmdline;
    bool has_start, has_end, has_uid;
    bool looks_ended; // end_ts comes from a poll of processes, not from the kernel
    uint8_t name_source;
    uint8_t is_kthread, is_peak_rss_resettable; // enum process_fact
    bool has_sort_index;
    int32_t sort_index;       // hint to viewers
    struct merged_args *args; // owned; NULL: none
};
VEC_DEFINE(process_vec, struct process);

struct processes {
    struct strset *strings; // borrowed
    struct thread_vec threads;
    struct process_vec items;
    struct map64 by_pid;     // pid -> living process
    struct map64 by_tid;     // tid -> newest life; `older` chains the older lives
    struct map64 live;       // tid -> thread with this tid now
    uint64_t mark;           // of the current machine, in the keys of the three maps
    uint32_t machine;        // the current machine
    struct failure *failure; // borrowed
    bool is_without_idle;    // see processes_without_idle()
};

void processes_init(struct processes *processes, struct strset *strings, struct failure *failure);

// Makes `machine` the machine of later pids and tids. Returns the utid of the machine's idle
// thread.
int64_t processes_enter_machine(struct processes *processes, uint32_t machine);

// Makes pid 0 and tid 0 an ordinary process and thread from this call on, for traces that no kernel
// made. The rows of the idle process and its thread stay, without names.
void processes_without_idle(struct processes *processes);

// Returns the thread that has the tid now; creates a missing thread.
int64_t processes_thread(struct processes *processes, int64_t tid);
// Returns the thread that has the tid now, or UTID_NONE.
int64_t processes_find_thread(const struct processes *processes, int64_t tid);

// Returns the living process of a pid, or NULL.
struct process *processes_find(const struct processes *processes, int64_t pid);

// Returns the living process of a pid; creates a missing process with its main thread.
int64_t processes_process(struct processes *processes, int64_t pid);

// Returns the living process of a pid; creates a missing process without a thread.
int64_t processes_without_thread(struct processes *processes, int64_t pid);
// Returns the utid of a thread of the process, not necessarily the main thread.
int64_t processes_thread_of(struct processes *processes, int64_t tid, int64_t upid);

// Notes that a thread belongs to a process. Returns the thread's utid.
int64_t processes_update_thread(struct processes *processes, int64_t tid, int64_t pid);

// Adds a process made by fork. The last process of the same pid ends. Returns the upid.
int64_t processes_start(struct processes *processes, int64_t ts, int64_t pid, uint32_t name);
// Makes the process of the thread `parent_utid` the parent of `upid`. The parent may become known
// later.
void processes_set_parent_thread(struct processes *processes, int64_t upid, int64_t parent_utid);

// Adds a thread made by clone in the process of `parent_utid`. Returns the utid.
int64_t processes_start_thread(struct processes *processes, int64_t ts, int64_t tid, uint32_t name,
                               int64_t parent_utid);

// Begin a new life of the tid or pid, without a time or a name. Return the utid or upid.
int64_t processes_renew_thread(struct processes *processes, int64_t tid);
int64_t processes_renew(struct processes *processes, int64_t pid);

// Ends the thread. The end of a main thread is also the end of its process.
void processes_end_thread(struct processes *processes, int64_t ts, int64_t tid);

bool processes_is_alive(const struct processes *processes, int64_t utid);

void processes_name_thread(struct processes *processes, int64_t utid, uint32_t name,
                           enum name_source source);
void processes_name(struct processes *processes, int64_t upid, uint32_t name,
                    enum process_name_source source);
// Adds args to the process's row.
void processes_add_args(struct processes *processes, int64_t upid, const struct arg *args,
                        size_t n);

// Notes that the kernel renamed a thread. The name of a main thread is also the name of its
// process.
void processes_rename(struct processes *processes, int64_t utid, uint32_t name,
                      enum name_source source);

// Sets the parent of a process. False: the process keeps another parent from an earlier call.
bool processes_set_parent(struct processes *processes, int64_t upid, int64_t parent_upid);

static inline struct process *processes_at(struct processes *processes, int64_t upid)
{
    return &processes->items.items[upid];
}

static inline struct thread *processes_thread_at(struct processes *processes, int64_t utid)
{
    return &processes->threads.items[utid];
}

void processes_write(const struct processes *processes, struct database *db, struct args *args);
void processes_done(struct processes *processes);
