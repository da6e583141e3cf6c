// SPDX-License-Identifier: Apache-2.0
//
// A process is identified by its pid and its start time, within its namespace. A process that has
// ended is gone even while it waits for its parent to reap it.
#include "producer/heap/heap_owner.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "producer/ground/process_life.h"

struct heap_owner heap_owner_self(void)
{
    struct process_life self = {0};
    process_life_read("/proc", getpid(), &self);
    return (struct heap_owner){
        .pid_namespace = process_namespace("/proc"),
        .start_ticks = self.start_ticks,
        .pid = getpid(),
    };
}

bool heap_owner_is_gone(const char *proc, const struct heap_owner *owner)
{
    if (owner->pid <= 0 || !owner->start_ticks || !owner->pid_namespace ||
        owner->pid_namespace != process_namespace("/proc"))
        return false;
    struct process_life life;
    if (!process_life_read(proc, owner->pid,
                           &life)) // the pid is free, or belongs to a hidden process
        return kill(owner->pid, 0) < 0 && errno == ESRCH;
    return life.ended || life.start_ticks != owner->start_ticks;
}

void heap_owner_stop(int ring_fd)
{
    const unsigned stopped = HEAP_STOPPED;
    if (pwrite(ring_fd, &stopped, sizeof(stopped), offsetof(struct heap_header, recorder)) < 0)
        return; // the client ends itself when it finds the ring full
}
