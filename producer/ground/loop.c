// SPDX-License-Identifier: Apache-2.0
//
// All timers share one timerfd, armed for the earliest of them. The kernel therefore wakes the
// process for this moment only. The timers are a binary heap over (due, order of creation): timers
// of the same moment fire in the order of their creation. The heap's array grows when timers are
// added, never while the loop runs. A disarmed timer leaves the heap but keeps its place in the
// array reserved.
//
// Callbacks may remove anything, even descriptors and timers with a pending call in the present
// round. Therefore removal only marks and unlinks. The memory is released when no round is running.
#include "producer/ground/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/vec.h"

#define EVENTS_PER_ROUND 32
#define NOT_IN_HEAP      SIZE_MAX

// An object that was removed during a round. Its memory is released after the round.
struct removed {
    struct removed *next;
};

struct loop_io {
    struct removed link; // first
    struct loop *loop;   // borrowed
    int fd;              // borrowed
    bool removed;
    loop_fn ready;
    void *userdata;
};

struct loop_timer {
    struct removed link; // first
    struct loop *loop;   // borrowed
    nsec_t due;
    nsec_t wake; // `due`, or later if the share is used up
    nsec_t period;
    uint64_t order;
    size_t heap_index;
    loop_fn fire;
    void *userdata;
    struct loop_share *share; // borrowed; NULL: no limit
};

VEC_DEFINE(timer_heap, struct loop_timer *);

struct loop {
    int epoll_fd;
    int timer_fd;
    struct timer_heap heap; // of armed timers; has room for all existing timers
    size_t n_timers;
    uint64_t next_order;
    nsec_t armed; // time at which timer_fd expires; NSEC_MAX: never
    unsigned depth;
    uint64_t n_rounds;
    struct loop_call call;
    bool quit;
    struct loop_rounds *rounds; // borrowed; NULL: no watcher
    struct removed *removed;    // owned
};

DEFINE_CLEANUP(loop_freep, struct loop, loop_free);

int loop_new(struct loop **ret)
{
    CLEANUP(loop_freep) struct loop *loop = memory_calloc(1, sizeof(*loop));
    if (!loop)
        return -ENOMEM;
    loop->armed = NSEC_MAX;
    loop->timer_fd = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return -errno;
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->timer_fd < 0)
        return -errno;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->timer_fd, &event) < 0)
        return -errno;
    *ret = STEAL(loop);
    return 0;
}

static void release_removed(struct loop *loop)
{
    while (loop->removed) {
        struct removed *first = loop->removed;
        loop->removed = first->next;
        free(first);
    }
}

static void release_later(struct loop *loop, struct removed *link)
{
    link->next = loop->removed;
    loop->removed = link;
    if (!loop->depth)
        release_removed(loop);
}

struct loop *loop_free(struct loop *loop)
{
    if (!loop)
        return NULL;
    int saved = errno;
    release_removed(loop);
    timer_heap_done(&loop->heap);
    close_fd(loop->timer_fd);
    close_fd(loop->epoll_fd);
    free(loop);
    errno = saved;
    return NULL;
}

int loop_add_io(struct loop *loop, int fd, uint32_t events, loop_fn ready, void *userdata,
                struct loop_io **ret)
{
    struct loop_io *io = memory_malloc(sizeof(*io));
    if (!io)
        return -ENOMEM;
    *io = (struct loop_io){.loop = loop, .fd = fd, .ready = ready, .userdata = userdata};
    struct epoll_event event = {.events = events, .data.ptr = io};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        int r = -errno;
        free(io);
        return r;
    }
    *ret = io;
    return 0;
}

int loop_set_io(struct loop_io *io, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = io};
    return epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event) < 0 ? -errno : 0;
}

struct loop_io *loop_remove_io(struct loop_io *io)
{
    if (!io)
        return NULL;
    int saved = errno;
    struct loop *loop = io->loop;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    io->removed = true;
    release_later(loop, &io->link);
    errno = saved;
    return NULL;
}

static bool timer_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->wake != b->wake ? a->wake < b->wake : a->order < b->order;
}

static void heap_put(struct timer_heap *heap, size_t index, struct loop_timer *timer)
{
    heap->items[index] = timer;
    timer->heap_index = index;
}

// Restores the order around `timer`, which may move in either direction.
static void heap_settle(struct timer_heap *heap, struct loop_timer *timer)
{
    size_t i = timer->heap_index;
    for (; i > 0 && timer_before(timer, heap->items[(i - 1) / 2]); i = (i - 1) / 2)
        heap_put(heap, i, heap->items[(i - 1) / 2]);
    for (size_t child = 2 * i + 1; child < heap->n; child = 2 * i + 1) {
        if (child + 1 < heap->n && timer_before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!timer_before(heap->items[child], timer))
            break;
        heap_put(heap, i, heap->items[child]);
        i = child;
    }
    heap_put(heap, i, timer);
}

static void heap_remove(struct timer_heap *heap, struct loop_timer *timer)
{
    if (timer->heap_index == NOT_IN_HEAP)
        return;
    size_t hole = timer->heap_index;
    struct loop_timer *last = heap->items[--heap->n];
    timer->heap_index = NOT_IN_HEAP;
    if (last == timer)
        return;
    heap_put(heap, hole, last);
    heap_settle(heap, last);
}

void loop_set_timer(struct loop_timer *timer, nsec_t first, nsec_t period)
{
    struct timer_heap *heap = &timer->loop->heap;
    timer->due = timer->wake = first;
    timer->period = period;
    if (first == NSEC_MAX) {
        heap_remove(heap, timer);
        return;
    }
    if (timer->heap_index == NOT_IN_HEAP)
        heap_put(heap, heap->n++, timer);
    heap_settle(heap, timer);
}

int loop_add_timer(struct loop *loop, nsec_t first, nsec_t period, loop_fn fire, void *userdata,
                   struct loop_timer **ret)
{
    int r = timer_heap_reserve(&loop->heap, loop->n_timers + 1);
    if (r < 0)
        return r;
    struct loop_timer *timer = memory_malloc(sizeof(*timer));
    if (!timer)
        return -ENOMEM;
    *timer = (struct loop_timer){
        .loop = loop,
        .order = loop->next_order++,
        .heap_index = NOT_IN_HEAP,
        .fire = fire,
        .userdata = userdata,
    };
    loop->n_timers++;
    loop_set_timer(timer, first, period);
    *ret = timer;
    return 0;
}

struct loop_timer *loop_remove_timer(struct loop_timer *timer)
{
    if (!timer)
        return NULL;
    struct loop *loop = timer->loop;
    heap_remove(&loop->heap, timer);
    loop->n_timers--;
    release_later(loop, &timer->link);
    return NULL;
}

void loop_set_share(struct loop_timer *timer, struct loop_share *share)
{
    timer->share = share;
}

static nsec_t earliest_due(const struct loop *loop)
{
    return loop->heap.n ? loop->heap.items[0]->wake : NSEC_MAX;
}

// Setting the time also cancels an expiry that was already signalled, so that timer_fd is never
// read.
static int arm_timer_fd(struct loop *loop)
{
    nsec_t earliest = earliest_due(loop);
    if (earliest == loop->armed)
        return 0;
    struct itimerspec spec = {0};
    if (earliest != NSEC_MAX)
        spec.it_value = nsec_to_timespec(earliest > 0 ? earliest : 1); // 0 would disarm the timer
    if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
        return -errno;
    loop->armed = earliest;
    return 0;
}

// Moves a due timer to its next time after `now` before the call, because the callback may move or
// remove the timer.
static void fire_timer(struct loop_timer *timer, nsec_t now)
{
    uint64_t n_due = 1;
    nsec_t due = timer->due, next = NSEC_MAX;
    if (timer->period > 0) {
        n_due += ((uint64_t)now - (uint64_t)due) / (uint64_t)timer->period;
        due += (nsec_t)(n_due - 1) * timer->period;
        if (__builtin_add_overflow(due, timer->period, &next))
            next = NSEC_MAX;
    }
    loop_set_timer(timer, next, timer->period);
    timer->loop->call = (struct loop_call){.due = due, .n_due = n_due};
    timer->fire(timer->userdata);
}

// Fires the timer, or lets it wait until its share has time. A timer that has fired goes behind
// the timers of the share that wait, so that each has its turn. (The callback may remove the
// timer.)
static void fire_in_share(struct loop_timer *timer, nsec_t now)
{
    struct loop_share *share = timer->share;
    if (!loop_share_is_left(share, now))
        share->turn = share->free_at;
    if (timer->wake < share->turn) {
        timer->wake = share->turn;
        heap_settle(&timer->loop->heap, timer);
        return;
    }
    timer->order = timer->loop->next_order++;
    nsec_t began = loop_share_begin(share);
    fire_timer(timer, now);
    loop_share_spend_since(share, began);
}

// Makes at most one call per timer: a timer that sets itself into the past must not delay the file
// descriptors.
static void fire_due_timers(struct loop *loop)
{
    if (!loop->heap.n)
        return;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    for (size_t left = loop->heap.n; left && loop->heap.n; left--) {
        struct loop_timer *earliest = loop->heap.items[0];
        if (earliest->wake > now)
            return;
        if (earliest->share)
            fire_in_share(earliest, now);
        else
            fire_timer(earliest, now);
    }
}

static int timeout_ms(nsec_t timeout)
{
    if (timeout == NSEC_MAX)
        return -1;
    if (timeout <= 0)
        return 0;
    nsec_t ms = (timeout - 1) / NSEC_PER_MSEC + 1;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

void loop_set_rounds(struct loop *loop, struct loop_rounds *rounds)
{
    loop->rounds = rounds;
}

static void round_begin(struct loop *loop)
{
    struct loop_rounds *rounds = loop->rounds;
    uint64_t one = 1;
    if (!rounds)
        return;
    rounds->number |= 1;
    if (rounds->watcher_sleeps)
        (void)!write(rounds->wake_fd, &one, sizeof(one));
}

// Makes the number even, whether the watcher was there at the start of the round or was set during
// the round.
static void round_end(struct loop *loop)
{
    if (loop->rounds)
        loop->rounds->number = (loop->rounds->number | 1) + 1;
}

const struct loop_call *loop_get_call(const struct loop *loop)
{
    return &loop->call;
}

int loop_run_once(struct loop *loop, nsec_t timeout)
{
    // Setting timer_fd takes 20 us on some virtual machines. If a timer is due already, timer_fd is
    // not set.
    if (earliest_due(loop) <= nsec_now(CLOCK_BOOTTIME)) {
        timeout = 0;
    } else {
        int r = arm_timer_fd(loop);
        if (r < 0)
            return r;
    }
    struct epoll_event events[EVENTS_PER_ROUND];
    int n = epoll_wait(loop->epoll_fd, events, EVENTS_PER_ROUND, timeout_ms(timeout));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    loop->n_rounds++;
    if (!loop->depth++)
        round_begin(loop);
    fire_due_timers(loop);
    for (int i = 0; i < n; i++) {
        struct loop_io *io = events[i].data.ptr;
        if (!io || io->removed)
            continue;
        loop->call = (struct loop_call){.events = events[i].events};
        io->ready(io->userdata);
    }
    if (--loop->depth == 0) {
        release_removed(loop);
        round_end(loop);
    }
    return 0;
}

uint64_t loop_n_rounds(const struct loop *loop)
{
    return loop->n_rounds;
}

int loop_run(struct loop *loop)
{
    int r = 0;
    while (r == 0 && !loop->quit)
        r = loop_run_once(loop, NSEC_MAX);
    loop->quit = false;
    return r;
}

void loop_quit(struct loop *loop)
{
    loop->quit = true;
}
