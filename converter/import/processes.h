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

// Where a name comes from. A better source replaces a worse one, never the other way round.
enum name_source {
    NAME_OTHER,
    NAME_FTRACE,       // the kernel's comm
    NAME_PROCESS_TREE, // /proc
    NAME_TRACK_TYPE,   // kind of thread, from a track descriptor
    NAME_TRACK,        // a track descriptor
    NAME_CONSTANT,     // known without the trace
};

// The same for names of processes.
enum process_name_source { PROCESS_NAME_OTHER, PROCESS_NAME_TRACK, PROCESS_NAME_SYSTEM };

#define UTID_NONE (-1)
#define UPID_NONE (-1)

struct thread {
    int64_t tid, start_ts, end_ts;
    int64_t upid;         // UPID_NONE: not known (yet)
    int64_t older;        // utid of the life before with the same tid that is not over; UTID_NONE
    uint32_t n_older;     // how many these are, at most
    int64_t next_sibling; // another thread of the process; UTID_NONE
    int64_t peer;         // threads known to share a process form a ring; itself if alone
    int64_t leader;       // towards one that all threads of a ring agree on; itself at the end
    int64_t first_child;  // process whose parent is this thread's; UPID_NONE
    int64_t arg_set;
    uint32_t machine;
    uint32_t name; // in strings; STRSET_NONE: none
    bool has_start, has_end, has_main, is_main, is_idle;
    uint8_t name_source;
};
VEC_DEFINE(thread_vec, struct thread);

// What a trace may say of a process, or not.
enum process_fact { FACT_UNKNOWN, FACT_FALSE, FACT_TRUE };

struct process {
    int64_t pid, start_ts, end_ts, parent_upid;
    int64_t first_thread; // its threads, chained; UTID_NONE
    int64_t next_child;   // another process that waits for the same parent thread; UPID_NONE
    uint32_t machine;
    uint32_t uid, name, cmdline;
    bool has_start, has_end, has_uid;
    bool looks_ended; // end_ts is what a poll of processes says, and not the kernel
    uint8_t name_source;
    uint8_t is_kthread, is_peak_rss_resettable; // enum process_fact
};
VEC_DEFINE(process_vec, struct process);

struct processes {
    struct strset *strings; // borrowed
    struct thread_vec threads;
    struct process_vec items;
    struct map64 by_pid;     // living process of a pid
    struct map64 by_tid;     // newest life of a tid; older ones are chained
    struct map64 live;       // what a bare tid means now
    uint64_t mark;           // of the machine at hand, in the keys of these maps
    uint32_t machine;        // at hand
    struct failure *failure; // borrowed
};

void processes_init(struct processes *processes, struct strset *strings, struct failure *failure);

// Pids and tids are of this machine from now on. Returns the utid of its idle thread.
int64_t processes_enter_machine(struct processes *processes, uint32_t machine);

// The thread that a tid means now, made if there is none.
int64_t processes_thread(struct processes *processes, int64_t tid);
// The same, or UTID_NONE.
int64_t processes_find_thread(const struct processes *processes, int64_t tid);

// The living process of a pid, or NULL.
struct process *processes_find(const struct processes *processes, int64_t pid);

// The living process of a pid, made with its main thread if there is none.
int64_t processes_process(struct processes *processes, int64_t pid);

// The same without a thread.
int64_t processes_without_thread(struct processes *processes, int64_t pid);
// A thread of that process that need not be its main one. Returns its utid.
int64_t processes_thread_of(struct processes *processes, int64_t tid, int64_t upid);

// A thread that is known to belong to a process. Returns its utid.
int64_t processes_update_thread(struct processes *processes, int64_t tid, int64_t pid);

// fork: whatever had that pid is over. Returns the upid.
int64_t processes_start(struct processes *processes, int64_t ts, int64_t pid, uint32_t name);
// The forked process's parent is the process of this thread, even if that becomes known later.
void processes_set_parent_thread(struct processes *processes, int64_t upid, int64_t parent_utid);

// clone: a new thread in the process of `parent_utid`.
int64_t processes_start_thread(struct processes *processes, int64_t ts, int64_t tid, uint32_t name,
                               int64_t parent_utid);

// The same for one that nothing is known of but that the tid, or pid, means another one from now
// on.
int64_t processes_renew_thread(struct processes *processes, int64_t tid);
int64_t processes_renew(struct processes *processes, int64_t pid);

// The thread is gone, and with a main thread its process.
void processes_end_thread(struct processes *processes, int64_t ts, int64_t tid);

bool processes_is_alive(const struct processes *processes, int64_t utid);

void processes_name_thread(struct processes *processes, int64_t utid, uint32_t name,
                           enum name_source source);
void processes_name(struct processes *processes, int64_t upid, uint32_t name,
                    enum process_name_source source);
// The kernel renamed a thread: names the process as well if it is the main one.
void processes_rename(struct processes *processes, int64_t utid, uint32_t name);

// False: it already has another parent, which stays.
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
