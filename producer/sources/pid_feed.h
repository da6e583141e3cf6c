// SPDX-License-Identifier: Apache-2.0
//
// Passes the pids that the sources of a session meet (ftrace) to the source that names processes
// (process_stats). Publishing a known pid costs one comparison.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"

#define PID_FEED_CACHE 4096

// A task exits when it ends; the kernel frees it, and gives its id to others, when its parent knows
// of the exit.
struct task_end {
    int32_t tid;
    uint32_t cpu;     // of the kernel's event
    nsec_t time;      // of the kernel's event, CLOCK_BOOTTIME
    const char *name; // the task's last name; borrowed, ends with a NUL if it is shorter than size
    size_t size;      // 0 if a task is freed
    int32_t tgid;     // the process; 0: not known
};

struct pid_feed {
    int32_t recent[PID_FEED_CACHE]; // direct-mapped by pid
    // Called for each pid that is new to the cache: at least once per published pid, and again if
    // pids displace each other. Borrowed; NULL: no listener.
    void (*seen)(void *userdata, int32_t pid);
    // As `seen`; called each time a pid ended, changed its name, or executed another program.
    void (*changed)(void *userdata, int32_t pid, bool executed);
    // Called for each task that exits, and for each that the kernel frees. The function must not
    // write packets, because a packet of events may be open.
    void (*exited)(void *userdata, const struct task_end *end);
    void (*freed)(void *userdata, const struct task_end *end);
    bool has_exits;    // the kernel's events of all exits are published
    nsec_t exit_delay; // longest time from a task's end to its publication; 0: no exits
    uint64_t n_rounds; // how often a source has published all exits of the time before
    // Sources of events read at this time, the start of the last source, plus multiples of their
    // periods.
    nsec_t read_grid;
    void *userdata;
    // Publishes that a process is being profiled; called again when it executes another program.
    // Borrowed; NULL: no listener.
    void (*profiled)(void *userdata, int32_t pid);
    void *profiled_userdata;
};

static inline void pid_feed_profiled(struct pid_feed *feed, int32_t pid)
{
    if (feed->profiled)
        feed->profiled(feed->profiled_userdata, pid);
}

static inline void pid_feed_publish(struct pid_feed *feed, int32_t pid)
{
    int32_t *slot = &feed->recent[(uint32_t)pid % PID_FEED_CACHE];
    if (__builtin_expect(*slot == pid, 1) || pid <= 0)
        return;
    *slot = pid;
    if (feed->seen)
        feed->seen(feed->userdata, pid);
}

static inline void pid_feed_exit(struct pid_feed *feed, const struct task_end *end)
{
    if (feed->exited && end->tid > 0)
        feed->exited(feed->userdata, end);
}

// Publishes that the kernel has freed a task. The next publication of the id counts as new.
static inline void pid_feed_free(struct pid_feed *feed, const struct task_end *end)
{
    if (end->tid <= 0)
        return;
    int32_t *slot = &feed->recent[(uint32_t)end->tid % PID_FEED_CACHE];
    if (*slot == end->tid)
        *slot = 0;
    if (feed->freed)
        feed->freed(feed->userdata, end);
}

// Notes that the pid ended, changed its name, or (`executed`) may have executed another program.
// The next publication of the pid counts as new.
static inline void pid_feed_forget(struct pid_feed *feed, int32_t pid, bool executed)
{
    if (pid <= 0)
        return;
    int32_t *slot = &feed->recent[(uint32_t)pid % PID_FEED_CACHE];
    if (*slot == pid)
        *slot = 0;
    if (feed->changed)
        feed->changed(feed->userdata, pid, executed);
}
