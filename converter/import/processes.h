// SPDX-License-Identifier: Apache-2.0
//
// Processes and threads over the time of the trace. The kernel reuses pids and tids; upid and utid
// number each life once, in order of appearance. 0 is the idle process and its thread; further
// machines have their own.
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
    NAME_CONSTANT,     // known without the trace
};

// The source of a name of a process, worst first.
enum process_name_source {
    PROCESS_NAME_OTHER,
    PROCESS_NAME_TYPE,     // Chrome's kind of process
    PROCESS_NAME_TRACK,    // a track descriptor
    PROCESS_NAME_RENDERER, // Chrome's kind, if the process shows pages
    PROCESS_NAME_SYSTEM,
};

#define UTID_NONE (-1)
#define UPID_NONE (-1)

struct thread {
    int64_t tid, start_ts, end_ts;
    int64_t upid;         // UPID_NONE: not known (yet)
    int64_t older;        // utid of an earlier life of the tid that is not over, or UTID_NONE
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

// A boolean that the trace may lack
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
    struct map64 by_pid;     // living process of a pid
    struct map64 by_tid;     // newest life of a tid; older lives are chained
    struct map64 live;       // thread that a tid means now
    uint64_t mark;           // of the current machine, in the keys of these maps
    uint32_t machine;        // the current machine
    struct failure *failure; // borrowed
    bool is_without_idle;    // see processes_without_idle()
};

void processes_init(struct processes *processes, struct strset *strings, struct failure *failure);

// Later pids and tids belong to this machine. Returns the utid of its idle thread.
int64_t processes_enter_machine(struct processes *processes, uint32_t machine);

// For traces that no kernel made: pid and tid 0 mean a process and a thread like others from now
// on. The rows of the idle process and its thread stay, without names.
void processes_without_idle(struct processes *processes);

// The thread that a tid means now; created if missing.
int64_t processes_thread(struct processes *processes, int64_t tid);
// The thread that a tid means now, or UTID_NONE.
int64_t processes_find_thread(const struct processes *processes, int64_t tid);

// The living process of a pid, or NULL.
struct process *processes_find(const struct processes *processes, int64_t pid);

// The living process of a pid; created with its main thread if missing.
int64_t processes_process(struct processes *processes, int64_t pid);

// The living process of a pid; created without a thread if missing.
int64_t processes_without_thread(struct processes *processes, int64_t pid);
// A thread of the process, not necessarily the main thread. Returns its utid.
int64_t processes_thread_of(struct processes *processes, int64_t tid, int64_t upid);

// A thread that is known to belong to a process. Returns its utid.
int64_t processes_update_thread(struct processes *processes, int64_t tid, int64_t pid);

// fork: a new process, which ends the last process of that pid. Returns the upid.
int64_t processes_start(struct processes *processes, int64_t ts, int64_t pid, uint32_t name);
// Makes the process of this thread the parent. That process may become known later.
void processes_set_parent_thread(struct processes *processes, int64_t upid, int64_t parent_utid);

// clone: a new thread in the process of `parent_utid`.
int64_t processes_start_thread(struct processes *processes, int64_t ts, int64_t tid, uint32_t name,
                               int64_t parent_utid);

// The tid or pid has a new life, of which nothing else is known. Returns the utid or upid.
int64_t processes_renew_thread(struct processes *processes, int64_t tid);
int64_t processes_renew(struct processes *processes, int64_t pid);

// Ends the thread, and with a main thread its process.
void processes_end_thread(struct processes *processes, int64_t ts, int64_t tid);

bool processes_is_alive(const struct processes *processes, int64_t utid);

void processes_name_thread(struct processes *processes, int64_t utid, uint32_t name,
                           enum name_source source);
void processes_name(struct processes *processes, int64_t upid, uint32_t name,
                    enum process_name_source source);
// Adds args to the process's row.
void processes_add_args(struct processes *processes, int64_t upid, const struct arg *args,
                        size_t n);

// The kernel renamed a thread. The name of a main thread is also its process's name.
void processes_rename(struct processes *processes, int64_t utid, uint32_t name,
                      enum name_source source);

// False: the process keeps another parent that was set before.
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
