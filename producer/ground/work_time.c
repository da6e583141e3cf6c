// SPDX-License-Identifier: Apache-2.0
//
// The kernel counts the time for which a thread has waited for a processor. A wait between the two
// readings would make the result wrong, so they are repeated then.
#include "producer/ground/work_time.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/cleanup.h"

#define READINGS_MAX 5

static _Thread_local int schedstat_fd = -1;
static _Thread_local pid_t opened_by; // a child after fork() opens its own file

nsec_t work_time_queued(void)
{
    char text[96];
    long long queued;
    if (opened_by != gettid()) {
        opened_by = gettid();
        close_fd(schedstat_fd);
        schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    }
    ssize_t n = pread(schedstat_fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*u %lld", &queued) == 1 ? queued : 0;
}

nsec_t work_time_now(void)
{
    nsec_t now, before, after = work_time_queued();
    int n = 0;
    do {
        before = after;
        now = nsec_now(CLOCK_MONOTONIC);
        after = work_time_queued();
    } while (after != before && ++n < READINGS_MAX);
    return now - after;
}
