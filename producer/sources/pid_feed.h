// SPDX-License-Identifier: Apache-2.0
//
// Sources that see process ids in passing (ftrace) tell those that can say who they are
// (process_stats), within one session. Publishing a pid that was seen before costs one compare.
#pragma once

#include <stdint.h>

#define PID_FEED_CACHE 4096

struct pid_feed {
    int32_t recent[PID_FEED_CACHE]; // direct-mapped by pid
    // Borrowed; NULL while nobody listens. Called for each pid that is new to the cache: at least
    // once for every pid that is published, again when pids drive each other out.
    void (*seen)(void *userdata, int32_t pid);
    // As `seen`; called each time that a pid ended or changed its name.
    void (*changed)(void *userdata, int32_t pid);
    void *userdata;
    // The process is being profiled: called again when another program is executed in it. Borrowed;
    // NULL while nobody listens.
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
    if (pid <= 0)
        return;
    int32_t *slot = &feed->recent[(uint32_t)pid % PID_FEED_CACHE];
    if (__builtin_expect(*slot == pid, 1))
        return;
    *slot = pid;
    if (feed->seen)
        feed->seen(feed->userdata, pid);
}

// The pid ended or changed its name: the next sight of it counts as new.
static inline void pid_feed_forget(struct pid_feed *feed, int32_t pid)
{
    if (pid <= 0)
        return;
    int32_t *slot = &feed->recent[(uint32_t)pid % PID_FEED_CACHE];
    if (*slot == pid)
        *slot = 0;
    if (feed->changed)
        feed->changed(feed->userdata, pid);
}
