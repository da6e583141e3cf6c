// SPDX-License-Identifier: Apache-2.0
//
// SIGKILL does not always end a process: a process goes on waiting if a FUSE server has already
// read its request. Therefore the recorder never waits for a helper. It closes its end of the
// socket, keeps a pidfd, and reaps the process when the pidfd reports the end.
//
// A helper that is no longer needed sees the end of its socket, and removes its files in the
// folders of others. If this takes too long, it is killed.
//
// A helper has at most one request: if it does not answer in time, this request is the cause.
#include "producer/foreign/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/relay.h"
#include "producer/foreign/worker.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/self_guard.h"

extern char **environ;

#define START_MAX  (20 * NSEC_PER_SEC) // for the start of a process
#define RUN_MAX    (30 * NSEC_PER_SEC) // for a job that waits for a processor
#define STARTS_MAX 3                   // consecutive starts of a helper that completes no job

// A process that was asked to end, or killed, and may still exist.
struct left_process {
    struct foreign *foreign; // borrowed
    pid_t pid;
    int pidfd; // owned; -1: the kernel has no pidfds
    struct loop_io *io;
    uint64_t payer;
    bool is_killed; // otherwise it was asked to end
    nsec_t due;     // time by which it should have ended; CLOCK_MONOTONIC
};
VEC_DEFINE(left_vec, struct left_process *);

struct refused_payer {
    uint64_t payer;
    nsec_t until;
};
VEC_DEFINE(refused_vec, struct refused_payer);

struct foreign {
    struct foreign_options options;
    struct left_vec left; // owned
    struct refused_vec refused;
    struct budget time;     // microseconds of helpers
    struct relays *closers; // owned; they close sockets
    bool failure_told;      // a helper could not be started
};

struct foreign_call {
    struct foreign_helper *helper; // borrowed
    struct foreign_message head;
    uint64_t payer;
    nsec_t time_max, begun; // begun is 0 while the call waits
    int fd;                 // owned
    foreign_done_fn done;   // NULL: cancelled
    void *userdata;
    size_t size;
    alignas(max_align_t) uint8_t bytes[];
};
VEC_DEFINE(call_vec, struct foreign_call *);

struct foreign_helper {
    struct foreign *foreign; // borrowed
    pid_t pid;               // 0: no process
    int fd;                  // owned; -1: none
    struct loop_io *io;
    struct loop_timer *timer;
    struct call_vec waiting;      // owned, in the order of arrival
    struct foreign_call *current; // owned; the running call
    nsec_t due;                   // CLOCK_BOOTTIME, for the running call
    uint64_t progress;            // of its process, at the last check
    uint64_t queued;              // nanoseconds that its process had then waited for a processor
    uint64_t n_calls, last_payer;
    unsigned n_starts; // since the last answer
    bool is_ready;     // the process has said that it is ready
    bool in_callback, is_freed;
};

int foreign_new(const struct foreign_options *options, struct foreign **ret)
{
    struct foreign *foreign = calloc(1, sizeof(*foreign));
    if (!foreign)
        return -ENOMEM;
    foreign->options = *options;
    budget_init(&foreign->time, &(struct budget_limits){.what = "microseconds of helpers",
                                                        .each_burst = FOREIGN_SHARE,
                                                        .each_per_minute = FOREIGN_SHARE});
    if (!options->jobs)
        foreign->options.jobs = foreign_jobs;
    int r = relays_new(options->loop, &foreign->closers);
    if (r < 0)
        free(foreign);
    else
        *ret = foreign;
    return r;
}

// Processes that were left behind.

static void left_free(struct left_process *left)
{
    struct left_vec *all = &left->foreign->left;
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i] == left)
            all->items[i--] = all->items[--all->n];
    left->io = loop_remove_io(left->io);
    close_fd(left->pidfd);
    free(left);
}

static bool left_reap(struct left_process *left)
{
    if (waitpid(left->pid, NULL, WNOHANG) == 0)
        return false;
    left_free(left);
    return true;
}

static void left_ended(void *userdata)
{
    left_reap(userdata);
}

void foreign_leave(struct foreign *foreign, pid_t pid, uint64_t payer, bool is_killed)
{
    struct left_process *left = calloc(1, sizeof(*left));
    if (is_killed || !left)
        kill(pid, SIGKILL);
    if (waitpid(pid, NULL, WNOHANG) != 0 || !left || left_vec_push(&foreign->left, left) < 0) {
        free(left);
        return;
    }
    *left = (struct left_process){.foreign = foreign,
                                  .pid = pid,
                                  .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
                                  .payer = payer,
                                  .is_killed = is_killed,
                                  .due = nsec_now(CLOCK_MONOTONIC) + FOREIGN_GRACE};
    if (left->pidfd >= 0)
        loop_add_io(foreign->options.loop, left->pidfd, EPOLLIN, left_ended, left, &left->io);
}

static void reap_all(struct foreign *foreign)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    for (size_t i = foreign->left.n; i-- > 0;) {
        struct left_process *left = foreign->left.items[i];
        if (!left_reap(left) && !left->is_killed && now >= left->due) {
            kill(left->pid, SIGKILL);
            left->is_killed = true;
        }
    }
}

static size_t n_ending(const struct foreign *foreign)
{
    size_t n = 0;
    vec_foreach(&foreign->left, left)
        n += !(*left)->is_killed;
    return n;
}

struct foreign *foreign_free(struct foreign *foreign)
{
    if (!foreign)
        return NULL;
    for (reap_all(foreign); n_ending(foreign) > 0; reap_all(foreign))
        nanosleep(&(struct timespec){.tv_nsec = NSEC_PER_MSEC}, NULL);
    while (foreign->left.n > 0)
        left_free(foreign->left.items[0]);
    left_vec_done(&foreign->left);
    refused_vec_done(&foreign->refused);
    budget_done(&foreign->time);
    relays_free(foreign->closers);
    free(foreign);
    return NULL;
}

// Sockets.

void foreign_close_socket(struct foreign *foreign, int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    int listens = 0;
    socklen_t size = sizeof(peer), size_of_int = sizeof(listens);
    if (fd < 0)
        return;
    // A listening socket has the credentials of this process, but may hold connections of any user.
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size_of_int);
    if (!listens)
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (peer.uid == 0 || peer.uid == geteuid())
        close_fd(fd);
    else
        relays_close_socket(foreign->closers, fd, peer.uid);
}

void foreign_close_file(struct foreign *foreign, int fd, uint64_t payer)
{
    if (foreign && fd >= 0)
        relays_close_file(foreign->closers, fd, payer);
    else
        close_fd(fd);
}

bool foreign_is_full(struct foreign *foreign)
{
    return relays_are_full(foreign->closers);
}

// Payers that are refused.

static void refuse_payer(struct foreign *foreign, uint64_t payer)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    struct refused_payer fresh = {payer, now + FOREIGN_REST};
    vec_foreach(&foreign->refused, refused)
        if (refused->payer == payer || refused->until <= now) {
            *refused = fresh;
            return;
        }
    refused_vec_push(&foreign->refused, fresh);
}

static bool is_refused(const struct foreign *foreign, uint64_t payer)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    vec_foreach(&foreign->refused, refused)
        if (refused->payer == payer && refused->until > now)
            return true;
    return false;
}

int foreign_check_left(struct foreign *foreign, uint64_t payer, struct err *err)
{
    size_t n = 0, n_all = 0;
    reap_all(foreign);
    vec_foreach(&foreign->left, left) {
        n += (*left)->is_killed && (*left)->payer == payer;
        n_all += (*left)->is_killed;
    }
    if (n >= FOREIGN_LEFT_EACH)
        return err_set(err, -EDQUOT, "%d helpers hang in file systems of user %" PRIu64,
                       FOREIGN_LEFT_EACH, payer);
    if (n_all >= FOREIGN_LEFT_ALL && payer != 0)
        return err_set(err, -EDQUOT, "%d helpers hang in file systems of several users",
                       FOREIGN_LEFT_ALL);
    return 0;
}

static int check_payer(struct foreign *foreign, uint64_t payer, struct err *err)
{
    int r = foreign_check_left(foreign, payer, err);
    if (r == 0 && is_refused(foreign, payer))
        r = err_set(err, -ETIMEDOUT,
                    "look-ups and reads of files of user %" PRIu64 " took too long: files of this "
                    "user are left alone for %d s",
                    payer, (int)(FOREIGN_REST / NSEC_PER_SEC));
    return r;
}

// The process.

static int spawn_program(const struct foreign *foreign, int fd, pid_t *ret)
{
    char *const argv[] = {(char *)(uintptr_t)FOREIGN_HELPER_NAME,
                          (char *)(uintptr_t)foreign->options.proc, NULL};
    posix_spawn_file_actions_t actions;
    int r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return r;
    r = -posix_spawn_file_actions_adddup2(&actions, fd, FOREIGN_SOCKET_FD);
    if (r == 0)
        r = -posix_spawn(ret, foreign->options.program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

static int spawn(const struct foreign *foreign, int fd, pid_t *ret)
{
    if (foreign->options.program)
        return spawn_program(foreign, fd, ret);
    *ret = fork();
    if (*ret == 0)
        _exit(dup2(fd, FOREIGN_SOCKET_FD) < 0
                  ? 1
                  : foreign_worker_main(foreign->options.proc, foreign->options.jobs));
    return *ret < 0 ? -errno : 0;
}

static void end_process(struct foreign_helper *helper, uint64_t payer, bool is_killed)
{
    helper->io = loop_remove_io(helper->io);
    helper->fd = close_fd(helper->fd);
    if (helper->pid > 0)
        foreign_leave(helper->foreign, helper->pid, payer, is_killed);
    helper->pid = 0;
}

static void socket_ready(void *userdata);

static int start_process(struct foreign_helper *helper)
{
    int fds[2];
    if (helper->n_starts >= STARTS_MAX)
        return -EPIPE;
    helper->n_starts++;
    helper->is_ready = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return -errno;
    helper->fd = fds[0];
    // The child's end must not have the number FOREIGN_SOCKET_FD yet: dup2() to the same number
    // would leave it close-on-exec.
    int child_fd CLEANUP(close_fdp) = fcntl(fds[1], F_DUPFD_CLOEXEC, FOREIGN_SOCKET_FD + 1);
    close_fd(fds[1]);
    int r = child_fd < 0 ? -errno : spawn(helper->foreign, child_fd, &helper->pid);
    if (r == 0) {
        self_guard_release(helper->pid);
        r = loop_add_io(helper->foreign->options.loop, helper->fd, EPOLLIN, socket_ready, helper,
                        &helper->io);
    }
    if (r < 0)
        end_process(helper, 0, true);
    return r;
}

// Calls.

static struct foreign_call *call_free(struct foreign_call *call)
{
    if (call)
        close_fd(call->fd);
    free(call);
    return NULL;
}

// Counts the time that the job reports. If the job killed the helper, the time since the start of
// the job counts.
static void count_time(struct foreign_helper *helper, uint64_t payer, uint64_t taken_us)
{
    struct foreign *foreign = helper->foreign;
    if (is_refused(foreign, payer) ||
        budget_spend(&foreign->time, payer, taken_us, nsec_now(CLOCK_BOOTTIME)))
        return;
    log_warning(foreign->options.log,
                "look-ups and reads of files of user %" PRIu64 " took more than %d s in a minute: "
                "files of this user are left alone for %d s",
                payer, FOREIGN_SHARE / 1000000, (int)(FOREIGN_REST / NSEC_PER_SEC));
    refuse_payer(foreign, payer);
}

uint64_t foreign_time_left(struct foreign *foreign, uint64_t payer)
{
    return budget_left(&foreign->time, payer, nsec_now(CLOCK_BOOTTIME));
}

static void call_end(struct foreign_helper *helper, struct foreign_call *call, int result,
                     const void *answer, size_t size, int fd)
{
    bool outer = !helper->in_callback;
    if (result == -ENOMEM)
        memory_refused();
    helper->in_callback = true;
    if (call->done)
        call->done(call->userdata, result, answer, size, fd);
    else
        close_fd(fd);
    call_free(call);
    if (outer)
        helper->in_callback = false;
}

// Returns the next call: the first call of the payer after the last payer.
static size_t next_call(const struct foreign_helper *helper)
{
    size_t best = 0;
    uint64_t best_distance = UINT64_MAX;
    for (size_t i = 0; i < helper->waiting.n; i++) {
        uint64_t distance = helper->waiting.items[i]->payer - helper->last_payer - 1;
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

static struct foreign_call *take_call(struct foreign_helper *helper, size_t at)
{
    struct call_vec *waiting = &helper->waiting;
    struct foreign_call *call = waiting->items[at];
    memmove(&waiting->items[at], &waiting->items[at + 1],
            (--waiting->n - at) * sizeof(waiting->items[0]));
    return call;
}

// Returns the time of the first check whether the job makes progress.
static nsec_t first_time(const struct foreign_call *call)
{
    return call->time_max < FOREIGN_TIME ? call->time_max : FOREIGN_TIME;
}

static void begin_time(struct foreign_helper *helper, struct foreign_call *call)
{
    call->begun = nsec_now(CLOCK_BOOTTIME);
    helper->due = call->begun + (helper->is_ready ? first_time(call) : START_MAX);
    helper->progress = 0;
}

// Without a helper, the recording lacks what others' files say. The log says so once.
static void tell_failure(struct foreign *foreign, int r)
{
    if (!foreign->failure_told)
        log_warning(foreign->options.log,
                    "the helper that reads files of other users cannot be started (%s): names of "
                    "functions are missing",
                    r == -EPIPE ? "it ends at once" : strerror(-r));
    foreign->failure_told = true;
}

static int send_current(struct foreign_helper *helper)
{
    struct foreign_call *call = helper->current;
    if (helper->fd < 0) {
        int r = start_process(helper);
        if (r < 0) {
            tell_failure(helper->foreign, r);
            return r;
        }
    }
    return foreign_message_send(helper->fd, &call->head, call->bytes, call->size, call->fd);
}

static void fail_current(struct foreign_helper *helper, int result)
{
    struct foreign_call *call = STEAL(helper->current);
    call_end(helper, call, result, NULL, 0, -1);
}

// Sends the next call unless one is running.
static void advance(struct foreign_helper *helper)
{
    while (!helper->is_freed && !helper->current && helper->waiting.n > 0) {
        struct foreign_call *call = take_call(helper, next_call(helper));
        helper->current = call;
        if (!call->done) {
            helper->current = call_free(call);
            continue;
        }
        helper->last_payer = call->payer;
        int r = is_refused(helper->foreign, call->payer) ? -ETIMEDOUT : send_current(helper);
        if (r == -EPIPE || r == -ECONNRESET) { // the process had died
            end_process(helper, 0, true);
            r = send_current(helper);
        }
        if (r < 0) {
            fail_current(helper, r);
            continue;
        }
        begin_time(helper, call);
    }
    if (!helper->is_freed)
        loop_set_timer(helper->timer, helper->current ? helper->due : NSEC_MAX, 0);
}

static const char *read_proc(const struct foreign_helper *helper, const char *name, char *room,
                             size_t size)
{
    ssize_t n = text_file_read_once(room, size - 1, "/proc", "/%d/%s", helper->pid, name);
    room[n > 0 ? n : 0] = 0;
    return room;
}

// Returns how much the process has computed and read so far. A reader of slowly served files
// progresses, too; time_max ends it.
static uint64_t progress_of(const struct foreign_helper *helper, bool *ret_runs)
{
    char text[1024];
    uint64_t ticks[2] = {0}, n_read = 0;
    const char *rest = strrchr(read_proc(helper, "stat", text, sizeof(text)), ')');
    *ret_runs = rest && rest[1] && rest[2] == 'R';
    if (rest &&
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
               &ticks[0], &ticks[1]) != 2)
        ticks[0] = ticks[1] = 0;
    if (sscanf(read_proc(helper, "io", text, sizeof(text)), "rchar: %" SCNu64, &n_read) != 1)
        n_read = 0;
    return ticks[0] + ticks[1] + n_read;
}

// Returns how long the running call has waited for a processor, up to now.
static nsec_t time_queued(const struct foreign_helper *helper)
{
    char text[96];
    uint64_t queued;
    int n = sscanf(read_proc(helper, "schedstat", text, sizeof(text)), "%*u %" SCNu64, &queued);
    return n == 1 && queued > helper->queued ? (nsec_t)(queued - helper->queued) : 0;
}

// Returns true if the running call gets some more time.
static bool gets_on(struct foreign_helper *helper)
{
    const struct foreign_call *call = helper->current;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    nsec_t left = first_time(call) - (now - call->begun - time_queued(helper));
    if (helper->is_ready && left > 0 && now < call->begun + RUN_MAX) {
        helper->due = now + left;
        return true;
    }
    bool runs;
    uint64_t progress = progress_of(helper, &runs);
    nsec_t end = call->begun + (runs && call->time_max < RUN_MAX ? RUN_MAX : call->time_max);
    if (!helper->is_ready || now >= end || (!runs && progress <= helper->progress))
        return false;
    helper->progress = progress;
    helper->due = now + FOREIGN_TIME < end ? now + FOREIGN_TIME : end;
    return true;
}

// Ends the running call, which has used up its time.
static void be_late(struct foreign_helper *helper)
{
    const struct foreign_call *call = helper->current;
    log_warning(
        helper->foreign->options.log,
        "a look-up or read of a file of user %" PRIu64 " took %d s (%s) and was given up: files "
        "of this user are left alone for %d s",
        call->payer, (int)((nsec_now(CLOCK_BOOTTIME) - call->begun) / NSEC_PER_SEC),
        helper->foreign->options.jobs[call->head.job].name, (int)(FOREIGN_REST / NSEC_PER_SEC));
    refuse_payer(helper->foreign, call->payer);
    end_process(helper, call->payer, true);
    fail_current(helper, -ETIMEDOUT);
}

static void free_now(struct foreign_helper *helper);

// Does the work that a callback has asked for, after the callback has returned.
static void leave_callback(struct foreign_helper *helper)
{
    if (!helper->is_freed)
        advance(helper);
    if (helper->is_freed)
        free_now(helper);
}

static void time_passed(void *userdata)
{
    struct foreign_helper *helper = userdata;
    if (helper->current && nsec_now(CLOCK_BOOTTIME) >= helper->due && !gets_on(helper))
        be_late(helper);
    leave_callback(helper);
}

// Returns false if no answer has arrived.
static bool take_answer(struct foreign_helper *helper)
{
    alignas(max_align_t) uint8_t answer[FOREIGN_MESSAGE_MAX];
    struct foreign_message head;
    int fd;
    ssize_t n = foreign_message_receive(helper->fd, MSG_DONTWAIT, &head, answer, &fd);
    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n < 0) { // the job has killed its process
        end_process(helper, helper->current ? helper->current->payer : 0, true);
        if (helper->current) {
            nsec_t time = nsec_now(CLOCK_BOOTTIME) - helper->current->begun;
            count_time(helper, helper->current->payer, (uint64_t)(time / NSEC_PER_USEC));
            fail_current(helper, -EPIPE);
        }
        return true;
    }
    struct foreign_call *call = helper->current;
    helper->queued = head.queued;
    if (head.number == FOREIGN_HELLO) {
        helper->is_ready = true;
        if (call)
            begin_time(helper, call);
        close_fd(fd);
        return true;
    }
    helper->n_starts = 0;
    if (!call || call->head.number != head.number) {
        close_fd(fd);
        return true;
    }
    helper->current = NULL;
    count_time(helper, call->payer, head.taken / NSEC_PER_USEC);
    call_end(helper, call, head.result, answer, (size_t)n, fd);
    return true;
}

static void socket_ready(void *userdata)
{
    struct foreign_helper *helper = userdata;
    if (take_answer(helper))
        leave_callback(helper);
}

int foreign_helper_new(struct foreign *foreign, struct foreign_helper **ret)
{
    struct foreign_helper *helper = calloc(1, sizeof(*helper));
    if (!helper)
        return -ENOMEM;
    *helper = (struct foreign_helper){.foreign = foreign, .fd = -1};
    int r = loop_add_timer(foreign->options.loop, NSEC_MAX, 0, time_passed, helper, &helper->timer);
    if (r < 0)
        free(helper);
    else
        *ret = helper;
    return r;
}

static void free_now(struct foreign_helper *helper)
{
    helper->is_freed = helper->in_callback = true;
    helper->timer = loop_remove_timer(helper->timer);
    end_process(helper, helper->current ? helper->current->payer : 0, false);
    if (helper->current)
        fail_current(helper, -ECANCELED);
    while (helper->waiting.n > 0)
        call_end(helper, take_call(helper, 0), -ECANCELED, NULL, 0, -1);
    call_vec_done(&helper->waiting);
    free(helper);
}

struct foreign_helper *foreign_helper_free(struct foreign_helper *helper)
{
    if (helper && helper->in_callback)
        helper->is_freed = true;
    else if (helper)
        free_now(helper);
    return NULL;
}

int foreign_helper_ask(struct foreign_helper *helper, const struct foreign_ask *ask,
                       foreign_done_fn done, void *userdata, struct foreign_call **ret,
                       struct err *err)
{
    size_t n = 0;
    int fd CLEANUP(close_fdp) = ask->fd;
    if (helper->is_freed)
        return -ECANCELED;
    if (ask->size > FOREIGN_MESSAGE_MAX)
        return -EMSGSIZE;
    vec_foreach(&helper->waiting, waiting)
        n += (*waiting)->payer == ask->payer;
    if (n >= FOREIGN_WAITING)
        return err_set(err, -EDQUOT, "%d jobs of user %" PRIu64 " wait already", FOREIGN_WAITING,
                       ask->payer);
    int r = check_payer(helper->foreign, ask->payer, err);
    struct foreign_call *call = r < 0 ? NULL : memory_malloc(sizeof(*call) + ask->size);
    if (!call)
        return r < 0 ? r : -ENOMEM;
    *call = (struct foreign_call){
        .helper = helper,
        .head = {.job = ask->job, .number = ++helper->n_calls},
        .payer = ask->payer,
        .time_max = ask->time_max ? ask->time_max : FOREIGN_TIME,
        .fd = steal_fd(&fd),
        .done = done,
        .userdata = userdata,
        .size = ask->size,
    };
    memcpy(call->bytes, ask->bytes, ask->size);
    if (call_vec_push(&helper->waiting, call) < 0) {
        call_free(call);
        return -ENOMEM;
    }
    if (ret)
        *ret = call;
    // The loop starts the call, so that `done` is never called in here.
    if (!helper->current && !helper->in_callback)
        loop_set_timer(helper->timer, 0, 0);
    return 0;
}

void foreign_call_cancel(struct foreign_call *call)
{
    if (call)
        call->done = NULL;
}

struct foreign *foreign_of(const struct foreign_helper *helper)
{
    return helper->foreign;
}

size_t foreign_helper_n_calls(const struct foreign_helper *helper)
{
    return helper->waiting.n + (helper->current != NULL);
}

bool foreign_helper_settle(struct foreign_helper *helper, nsec_t deadline)
{
    helper->in_callback = true; // callbacks do not free the helper during the wait
    for (;;) {
        advance(helper);
        if (!helper->current && helper->waiting.n == 0)
            break;
        nsec_t now = nsec_now(CLOCK_MONOTONIC), rest = deadline - now;
        nsec_t late = helper->due - nsec_now(CLOCK_BOOTTIME);
        if (rest <= 0)
            break;
        struct pollfd poll_fd = {.fd = helper->fd, .events = POLLIN};
        nsec_t wait = late < rest ? late : rest;
        int n = poll(&poll_fd, 1, wait > 0 ? (int)(wait / NSEC_PER_MSEC) + 1 : 0);
        if (n > 0)
            take_answer(helper);
        else if (nsec_now(CLOCK_BOOTTIME) >= helper->due && !gets_on(helper))
            be_late(helper);
    }
    helper->in_callback = false;
    return foreign_helper_n_calls(helper) == 0;
}
