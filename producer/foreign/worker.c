// SPDX-License-Identifier: Apache-2.0
//
// A helper shares nothing with its recorder but its rights: no descriptor except the socket, no
// memory, no supplementary groups. It may be killed at any moment: its references to files of
// others (a root folder, an open file) end with its process.
//
// The helper measures its jobs itself. A measurement by the waiting recorder would include how busy
// the machine is: a job waits for a processor, and so does its answer.
//
// The recorder's death closes the socket. PR_SET_PDEATHSIG does not work here: the kernel drops it
// when file-system ids change (ids.h).
#include "producer/foreign/worker.h"
#include "producer/foreign/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/unix_socket.h"
#include "producer/ground/work_time.h"

#define DESCRIPTORS_MAX 4096

int foreign_message_send(int socket_fd, const struct foreign_message *head, const void *bytes,
                         size_t size, int fd)
{
    union unix_passing room;
    struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)head, .iov_len = sizeof(*head)},
        {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = size ? 2 : 1};
    unix_socket_pass(&message, &room, fd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t foreign_message_receive(int socket_fd, int flags, struct foreign_message *ret_head,
                                void *buffer, int *ret_fd)
{
    union unix_passing room;
    struct foreign_message head;
    struct iovec parts[] = {
        {.iov_base = &head, .iov_len = sizeof(head)},
        {.iov_base = buffer, .iov_len = FOREIGN_MESSAGE_MAX},
    };
    struct msghdr message = {
        .msg_iov = parts,
        .msg_iovlen = 2,
        .msg_control = &room,
        .msg_controllen = sizeof(room),
    };
    ssize_t n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | flags);
    if (n <= 0)
        return n < 0 ? -errno : -EPIPE;
    int fd = unix_socket_passed(&message);
    if ((size_t)n < sizeof(head) || (message.msg_flags & MSG_TRUNC)) {
        close_fd(fd);
        return -EPROTO;
    }
    *ret_head = head;
    *ret_fd = fd;
    return n - (ssize_t)sizeof(head);
}

// Drops inherited properties that would tie a hanging helper to other processes.
static void become_nobodys(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < FOREIGN_SOCKET_FD && null >= 0; fd++)
        dup2(null, fd);
#ifdef SYS_close_range
    syscall(SYS_close_range, FOREIGN_SOCKET_FD + 1, ~0U, 0);
#endif
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    // Keys at the recorder's terminal are for the recorder, which ends the helper.
    setsid();
    (void)!chdir("/");
    (void)!setgroups(0, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTORS_MAX, DESCRIPTORS_MAX});
    prctl(PR_SET_NAME, "mm-foreign");
    process_files_may_wait();
}

struct bench {
    struct foreign_worker worker;
    const struct foreign_job *jobs;
    void *states[FOREIGN_N_GROUPS];
};

static int do_job(struct bench *bench, const struct foreign_message *head,
                  struct foreign_request *request, uint8_t *room)
{
    struct foreign_answer answer = {.bytes = room, .fd = -1};
    if (head->job >= FOREIGN_JOBS_MAX || !bench->jobs[head->job].run)
        return -EPROTO;
    const struct foreign_job *job = &bench->jobs[head->job];
    bench->worker.state = &bench->states[job->group];
    nsec_t begun = work_time_now();
    job->run(&bench->worker, request, &answer);
    request->fd = close_fd(request->fd);
    nsec_t taken = work_time_now() - begun;
    struct foreign_message reply = {
        .number = head->number,
        .result = answer.result,
        .taken = taken > 0 ? (uint64_t)taken : 0,
        .queued = (uint64_t)work_time_queued(),
    };
    int r = foreign_message_send(FOREIGN_SOCKET_FD, &reply, answer.bytes, answer.size, answer.fd);
    close_fd(answer.fd);
    return r;
}

int foreign_worker_main(const char *proc, const struct foreign_job *jobs)
{
    static alignas(max_align_t) uint8_t asked[FOREIGN_MESSAGE_MAX], room[FOREIGN_MESSAGE_MAX];
    struct bench bench = {.worker = {.proc = proc}, .jobs = jobs};
    become_nobodys();
    // The time of a job begins now: on a busy machine the start may have taken long.
    const struct foreign_message hello = {.number = FOREIGN_HELLO,
                                          .queued = (uint64_t)work_time_queued()};
    foreign_message_send(FOREIGN_SOCKET_FD, &hello, NULL, 0, -1);
    for (;;) {
        struct foreign_message head;
        struct foreign_request request = {.bytes = asked};
        ssize_t n = foreign_message_receive(FOREIGN_SOCKET_FD, 0, &head, asked, &request.fd);
        if (n == -EINTR)
            continue;
        request.size = n > 0 ? (size_t)n : 0;
        if (n < 0 || do_job(&bench, &head, &request, room) < 0)
            break;
    }
    for (size_t i = 0; i < FOREIGN_JOBS_MAX; i++)
        if (jobs[i].end && bench.states[jobs[i].group])
            jobs[i].end(bench.states[jobs[i].group]);
    return 0;
}
