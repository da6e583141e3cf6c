// SPDX-License-Identifier: Apache-2.0
//
// A descriptor from a client can belong to a file system that the client serves itself (FUSE), or
// to a socket that lingers. Then a write, and even close(), can take any time that the client
// chooses, in a sleep that no signal ends. Therefore the service never holds a client's descriptor:
// a relay receives the descriptor, and passes a pipe to the service in its place.
//
// A relay is a forked process that keeps only its sockets and may only call functions that move
// bytes. The kernel kills a relay that stays in a call for STUCK_S. A relay that cannot be killed
// counts for its user, and nothing waits for it.
//
// Invariant: before an answer of the service passes, the client's file has all bytes that the
// service wrote. Therefore the pipe is emptied before an answer passes.
//
// A relay outlives its client as long as the service writes into the pipe.
//
// A refused connection may have unread descriptors, too. A closer receives the connections of one
// user and closes them. Many refusals cost one process, which counts for the user. The service ends
// a closer that is idle, and kills one that hangs.
//
// Invariant: the service is never the last holder of a connection: the last close() is the one that
// blocks. Therefore a closer holds a connection until the service's next message, which the service
// sends after its own close(). Until then a closer must not end: only the service ends a closer,
// and never between the message and its own close(). A relay waits for the service's close() before
// it begins.
#include "producer/foreign/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/sandbox.h"
#include "common/unix_socket.h"
#include "producer/ground/self_guard.h"

#define CHUNK_BYTES 65536
#define STUCK_S     30
#define FDS_KEPT    3 // the standard streams
#define PIPE_BYTES  (1 << 20)

// Killed closers that have not ended count.
#define CLOSERS_EACH_MAX 4
#define CLOSERS_ALL_MAX  32
#define CLOSER_IDLE      (10 * NSEC_PER_SEC)
#define UNCLOSED_MAX     64
#define PAYER_OF_REST    UINT64_MAX

#define NR_PIDFD_OPEN 434

// -- in the relay --

struct way {
    int from, to;
    char bytes[CHUNK_BYTES];
    size_t at, size; // the unsent part of `bytes`
};

struct relay_work {
    struct way in, out; // from the client to the service, and back
    int pipe_fd;        // our end of the pipe; -1: none
    int file_fd;        // client's file, into which the pipe is copied; -1: none
    int passed_fd;      // service's end of the pipe, sent with the next bytes; or -1
    bool file_is_regular;
    bool client_has_ended; // the client sends nothing more
};

static struct relay_work work; // used only in the forked process

// Writes to the client's file. The alarm limits only the write itself, because the reader of a pipe
// may take any time.
static ssize_t write_some(const char *bytes, size_t size)
{
    struct pollfd wait = {.fd = work.file_fd, .events = POLLOUT};
    if (work.file_is_regular)
        return write(work.file_fd, bytes, size);
    alarm(0);
    poll(&wait, 1, -1);
    alarm(STUCK_S);
    return write(work.file_fd, bytes, size < PIPE_BUF ? size : PIPE_BUF);
}

// Copies bytes from the service into the client's file: all of them, or one chunk. Returns false if
// the service has closed the pipe, or if writing failed, which the service notices by EPIPE.
static bool pump(bool to_the_last)
{
    static char bytes[CHUNK_BYTES];
    do {
        ssize_t n = read(work.pipe_fd, bytes, sizeof(bytes));
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        for (ssize_t at = 0; at < n;) {
            ssize_t written = write_some(bytes + at, (size_t)(n - at));
            if (written > 0)
                at += written;
            else if (written == 0 || (errno != EINTR && errno != EAGAIN))
                return false;
        }
        alarm(STUCK_S);
    } while (to_the_last);
    return true;
}

static void end_file(void)
{
    work.pipe_fd = close_fd(work.pipe_fd);
    work.file_fd = close_fd(work.file_fd);
}

// Makes the pipe that stands for the client's descriptor. The service gets the other end with the
// bytes that came with the descriptor. Only one file at a time is accepted. If the client's
// descriptor is not writable, the service gets an end that is not writable either.
static void take_file(int fd)
{
    int ends[2], flags = fcntl(fd, F_GETFL);
    struct stat st;
    if (work.file_fd >= 0 && !pump(true))
        end_file();
    if (work.file_fd >= 0 || flags < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        close_fd(fd);
        return;
    }
    fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
    bool writable = !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
    work.file_is_regular = fstat(fd, &st) < 0 || S_ISREG(st.st_mode);
    work.passed_fd = ends[writable];
    work.pipe_fd = ends[!writable];
    work.file_fd = fd;
}

static void receive_from_client(void)
{
    int fd = -1;
    int64_t n = unix_socket_receive(work.in.from, work.in.bytes, CHUNK_BYTES, MSG_DONTWAIT, &fd);
    if (fd >= 0)
        take_file(fd);
    if (n > 0) {
        work.in.at = 0;
        work.in.size = (size_t)n;
    } else if (n != -EAGAIN && n != -EINTR) {
        work.client_has_ended = true;
        shutdown(work.in.to, SHUT_WR);
    }
}

static void receive_from_service(void)
{
    ssize_t n = recv(work.out.from, work.out.bytes, CHUNK_BYTES, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        // The service has hung up and takes no more messages, but the pipe may have more data for
        // the file.
        close_fd(work.in.from);
        close_fd(work.in.to);
        work.in.from = work.in.to = work.out.from = work.out.to = -1;
        work.in.size = work.out.size = 0;
        work.passed_fd = close_fd(work.passed_fd); // ends the pipe if the end was not sent yet
    }
    if (n > 0) {
        work.out.at = 0;
        work.out.size = (size_t)n;
        if (work.pipe_fd >= 0 && !pump(true))
            end_file();
    }
}

static void send_rest(struct way *way, int *passed_fd)
{
    union unix_passing room;
    struct iovec part = {.iov_base = way->bytes + way->at, .iov_len = way->size - way->at};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    unix_socket_pass(&message, &room, passed_fd ? *passed_fd : -1);
    ssize_t n = sendmsg(way->to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        way->size = 0; // the receiver is gone; the next read from the other side notices this
        if (passed_fd)
            *passed_fd = close_fd(*passed_fd);
    }
    if (n <= 0)
        return;
    if (passed_fd)
        *passed_fd = close_fd(*passed_fd);
    way->at += (size_t)n;
    if (way->at == way->size)
        way->size = 0;
}

static void relay_round(void)
{
    struct pollfd fds[] = {
        {.fd = work.in.size || work.client_has_ended ? -1 : work.in.from, .events = POLLIN},
        {.fd = work.in.size ? work.in.to : -1, .events = POLLOUT},
        {.fd = work.out.size ? -1 : work.out.from, .events = POLLIN},
        {.fd = work.out.size ? work.out.to : -1, .events = POLLOUT},
        {.fd = work.pipe_fd, .events = POLLIN},
    };
    alarm(0); // from here on, the relay waits only for peers that may be silent
    if (poll(fds, ELEMENTS(fds), -1) < 0)
        return;
    alarm(STUCK_S);
    if (fds[4].revents && !pump(false))
        end_file();
    if (fds[0].revents)
        receive_from_client();
    if (fds[1].revents)
        send_rest(&work.in, &work.passed_fd);
    if (fds[2].revents)
        receive_from_service();
    if (fds[3].revents)
        send_rest(&work.out, NULL);
}

// Closes all descriptors except *a and *b: a relay must not hold the service's files. If a relay
// kept the standard streams, a reader of the service's messages would wait for the relay's end.
static void keep_only(int *a, int *b)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < FDS_KEPT && null >= 0; fd++)
        dup2(null, fd);
    int low = FDS_KEPT, other = FDS_KEPT + 1;
    int a_copy = fcntl(*a, F_DUPFD_CLOEXEC, 64);
    int b_copy = fcntl(*b < 0 ? *a : *b, F_DUPFD_CLOEXEC, 64);
    if (a_copy < 0 || b_copy < 0 || dup3(a_copy, low, O_CLOEXEC) < 0 ||
        dup3(b_copy, other, O_CLOEXEC) < 0)
        _exit(0);
    *a = low;
    *b = other;
    fd_close_from(other + 1);
}

static void enter_sandbox(void)
{
    int r = sandbox_shuffles();
    if (r < 0 && !sandbox_is_unavailable(r))
        _exit(0);
}

// After the end of the service, the kernel kills a closer that hangs. A closer has no alarm: an
// alarm could end it between the service's message and the service's close().
static void closer_main(int fd, int none)
{
    int held_fd = -1;
    keep_only(&fd, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter_sandbox();
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        char byte;
        int passed_fd = -1;
        if (poll(&wait, 1, -1) < 0)
            continue;
        if (unix_socket_receive(fd, &byte, sizeof(byte), MSG_DONTWAIT, &passed_fd) <= 0)
            _exit(0);
        close_fd(held_fd);
        held_fd = passed_fd;
    }
}

static void relay_main(int client_fd, int service_fd)
{
    struct pollfd wait = {.fd = service_fd, .events = POLLIN};
    char byte;
    poll(&wait, 1, STUCK_S * 1000);
    if (recv(service_fd, &byte, sizeof(byte), MSG_DONTWAIT) != sizeof(byte))
        _exit(0);
    signal(SIGALRM, SIG_DFL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL); // all other signals stay blocked, as in the service
    keep_only(&client_fd, &service_fd);
    enter_sandbox();
    work.in = (struct way){.from = client_fd, .to = service_fd};
    work.out = (struct way){.from = service_fd, .to = client_fd};
    work.pipe_fd = work.file_fd = work.passed_fd = -1;
    while (work.in.from >= 0 || work.pipe_fd >= 0)
        relay_round();
    _exit(0);
}

// -- in the service --

struct relay {
    pid_t pid;
    uint64_t payer;
    int pid_fd; // owned; -1: the kernel has no pidfds
    bool is_closer;
    int closer_fd;    // owned; takes the connections to close; -1: the closer is to end
    nsec_t last_used; // a closer; CLOCK_BOOTTIME
    struct loop_io *io;
    struct relays *relays; // borrowed
    struct relay *next;
};

struct unclosed {
    int fd; // owned
    uint64_t payer;
};

struct relays {
    struct loop *loop; // borrowed
    struct loop_timer *timer;
    bool timer_runs;                        // while there are closers
    struct relay *first;                    // owned
    struct unclosed unclosed[UNCLOSED_MAX]; // waiting for a closer
    size_t n_unclosed;
};

static void relay_forget(struct relay **at)
{
    struct relay *relay = *at;
    *at = relay->next;
    loop_remove_io(relay->io);
    close_fd(relay->pid_fd);
    close_fd(relay->closer_fd);
    free(relay);
}

static void reap(struct relays *relays)
{
    for (struct relay **at = &relays->first; *at;) {
        if (waitpid((*at)->pid, NULL, WNOHANG) != 0)
            relay_forget(at);
        else
            at = &(*at)->next;
    }
}

static void relay_ended(void *userdata)
{
    struct relay *relay = userdata;
    reap(relay->relays);
}

// Returns the number of processes of one kind of the payer; *ret_all is the number for all users
// together.
static size_t count(const struct relays *relays, uint64_t payer, bool closers, size_t *ret_all)
{
    size_t n = 0, n_of_payer = 0;
    for (const struct relay *relay = relays->first; relay; relay = relay->next) {
        n += relay->is_closer == closers;
        n_of_payer += relay->is_closer == closers && relay->payer == payer;
    }
    *ret_all = n;
    return n_of_payer;
}

// Starts a process that counts for the user and runs `child`, which does not return. *ret is
// borrowed.
static int start_process(struct relays *relays, uint64_t payer, void (*child)(int a, int b), int a,
                         int b, struct relay **ret)
{
    struct relay *relay = malloc(sizeof(*relay));
    pid_t pid = relay ? fork() : -1;
    if (pid == 0)
        child(a, b);
    if (pid < 0) {
        int r = relay ? -errno : -ENOMEM;
        free(relay);
        return r;
    }
    self_guard_release(pid);
    *relay = (struct relay){.pid = pid, .payer = payer, .relays = relays, .closer_fd = -1};
    relay->next = relays->first;
    relays->first = *ret = relay;
    relay->pid_fd = (int)syscall(NR_PIDFD_OPEN, pid, 0);
    if (relay->pid_fd < 0) // the start of the next process notices the end
        return 0;
    fcntl(relay->pid_fd, F_SETFD, FD_CLOEXEC);
    loop_add_io(relays->loop, relay->pid_fd, EPOLLIN, relay_ended, relay, &relay->io);
    return 0;
}

// Ends idle closers, and kills closers that hang.
static void look_at_closers(void *userdata)
{
    struct relays *relays = userdata;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    size_t n_left = 0;
    reap(relays);
    for (struct relay *relay = relays->first; relay; relay = relay->next) {
        if (!relay->is_closer)
            continue;
        n_left++;
        if (now >= relay->last_used + CLOSER_IDLE)
            relay->closer_fd = close_fd(relay->closer_fd);
        if (now >= relay->last_used + CLOSER_IDLE + STUCK_S * NSEC_PER_SEC)
            kill(relay->pid, SIGKILL);
    }
    relays->timer_runs = n_left > 0;
    if (!relays->timer_runs)
        loop_set_timer(relays->timer, NSEC_MAX, 0);
}

int relays_new(struct loop *loop, struct relays **ret)
{
    struct relays *relays = calloc(1, sizeof(*relays));
    if (!relays)
        return -ENOMEM;
    relays->loop = loop;
    int r = loop_add_timer(loop, NSEC_MAX, 0, look_at_closers, relays, &relays->timer);
    if (r < 0)
        free(relays);
    else
        *ret = relays;
    return r;
}

int relays_start(struct relays *relays, int fd, uint64_t payer, int *ret_fd)
{
    int ends[2];
    size_t n_all;
    struct relay *relay;
    reap(relays);
    bool too_many = count(relays, payer, false, &n_all) >= RELAYS_EACH_MAX;
    int r = too_many || n_all >= RELAYS_ALL_MAX ? -EUSERS : 0;
    if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        r = -errno;
    if (r < 0) {
        relays_close_socket(relays, fd, payer);
        return r;
    }
    r = start_process(relays, payer, relay_main, fd, ends[1], &relay);
    close_fd(ends[1]);
    if (r < 0) {
        close_fd(ends[0]);
        relays_close_socket(relays, fd, payer);
        return r;
    }
    close_fd(fd); // the relay holds the socket too, and begins now
    (void)!send(ends[0], "", 1, MSG_NOSIGNAL);
    *ret_fd = ends[0];
    return 0;
}

// The end of a closer closes all its sockets.
static void kill_closer(struct relay *closer)
{
    kill(closer->pid, SIGKILL);
    closer->closer_fd = close_fd(closer->closer_fd);
}

// Passes a socket to the user's closer, and closes it here. A closer that takes no more sockets is
// killed.
static bool pass_to_closer(struct relays *relays, int fd, uint64_t payer)
{
    for (struct relay *relay = relays->first; relay; relay = relay->next) {
        if (relay->closer_fd < 0 || relay->payer != payer)
            continue;
        relay->last_used = nsec_now(CLOCK_BOOTTIME);
        if (unix_socket_send(relay->closer_fd, "", 1, fd, MSG_DONTWAIT) < 0) {
            kill_closer(relay);
            continue;
        }
        close_fd(fd);
        if (unix_socket_send(relay->closer_fd, "", 1, -1, MSG_DONTWAIT) < 0)
            kill_closer(relay);
        return true;
    }
    return false;
}

static bool start_closer(struct relays *relays, uint64_t payer)
{
    int ends[2];
    struct relay *relay = NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    int r = start_process(relays, payer, closer_main, ends[1], -1, &relay);
    close_fd(ends[1]);
    if (r < 0) {
        close_fd(ends[0]);
        return false;
    }
    relay->is_closer = true;
    relay->closer_fd = ends[0];
    relay->last_used = nsec_now(CLOCK_BOOTTIME);
    if (!relays->timer_runs)
        loop_set_timer(relays->timer, relay->last_used + CLOSER_IDLE, CLOSER_IDLE);
    relays->timer_runs = true;
    return true;
}

static bool start_closer_within_limits(struct relays *relays, uint64_t payer)
{
    size_t n_all;
    reap(relays);
    return count(relays, payer, true, &n_all) < CLOSERS_EACH_MAX && n_all < CLOSERS_ALL_MAX &&
           start_closer(relays, payer);
}

static bool close_elsewhere(struct relays *relays, int fd, uint64_t payer)
{
    return pass_to_closer(relays, fd, payer) ||
           (start_closer_within_limits(relays, payer) && pass_to_closer(relays, fd, payer));
}

// Passes the unclosed sockets to a closer, even beyond the limits. Otherwise the service would
// close them at its end, and one close that blocks would keep the service from ending. If no closer
// can be started, the sockets stay open.
static void close_rest(struct relays *relays)
{
    for (size_t i = 0; i < relays->n_unclosed; i++) {
        int fd = relays->unclosed[i].fd;
        if (!pass_to_closer(relays, fd, PAYER_OF_REST) && start_closer(relays, PAYER_OF_REST))
            pass_to_closer(relays, fd, PAYER_OF_REST);
    }
}

struct relays *relays_free(struct relays *relays)
{
    if (!relays)
        return NULL;
    close_rest(relays);
    reap(relays);
    while (relays->first)
        relay_forget(&relays->first);
    loop_remove_timer(relays->timer);
    free(relays);
    return NULL;
}

bool relays_are_full(struct relays *relays)
{
    size_t n = 0;
    for (size_t i = 0; i < relays->n_unclosed; i++)
        if (!close_elsewhere(relays, relays->unclosed[i].fd, relays->unclosed[i].payer))
            relays->unclosed[n++] = relays->unclosed[i];
    relays->n_unclosed = n;
    return n == UNCLOSED_MAX;
}

void relays_close_socket(struct relays *relays, int fd, uint64_t payer)
{
    if (unix_socket_refuses_fds(fd)) {
        close_fd(fd);
        return;
    }
    shutdown(fd, SHUT_RDWR); // so that the client does not wait for the close
    if (!close_elsewhere(relays, fd, payer) && relays->n_unclosed < UNCLOSED_MAX)
        relays->unclosed[relays->n_unclosed++] = (struct unclosed){fd, payer};
}

void relays_close_file(struct relays *relays, int fd, uint64_t payer)
{
    if (!close_elsewhere(relays, fd, payer))
        close_fd(fd);
}
