// SPDX-License-Identifier: Apache-2.0
//
// A VM begins to listen on /tmp/.java_pidPID when it is first asked to: by a file
// /tmp/.attach_pidPID and SIGQUIT. Without this file a VM prints its threads on SIGQUIT, and other
// programs die of the signal. Therefore the signal goes only to a process that maps a VM's library
// and catches the signal. PID and /tmp are those of the VM's own namespaces.
//
// The owner of the VM's /tmp may put any socket there. Therefore the kernel is asked for the
// process that listens. The folder may also be any folder of the machine, under another name in
// mounts of the VM's user. Therefore files are made and removed with the rights of the VM's user.
//
// A second copy of the agent would be a separate agent, without knowledge of the first and without
// the VM's samples. The loader identifies a library by the name of its load, even if the file no
// longer exists: the VM is given the same name again.
#include "producer/heap/vm_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "producer/heap/agent_options.h"
#include "producer/heap/vm_process.h"

#define READY_MS   30000 // a VM that handles the signal later than this prints its threads instead
#define ANSWER_MS  30000
#define STEP_MS    20
#define ANSWER_MAX 4096

struct request {
    const struct vm_process *vm;
    const char *options;
    const sigset_t *waiting;
};

// Works as poll(), but returns a negative errno on failure, also -EINTR.
static int wait_for(const struct request *request, struct pollfd *ready, int ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    int r = ppoll(ready, ready ? 1 : 0, &time, request->waiting);
    return r < 0 ? -errno : r;
}

static int socket_open(const struct vm_process *vm, const struct sockaddr_un *address, int *ret)
{
    struct timeval timeout = {.tv_sec = READY_MS / 1000};
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    int fd CLEANUP(close_fdp) = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    if (peer.pid != vm->pid)
        return -ECONNREFUSED;
    *ret = steal_fd(&fd);
    return 0;
}

// Returns the descriptor or a negative errno.
static int vm_connect(const struct vm_process *vm)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/.java_pid%d", vm->tmp_fd,
             (int)vm->own_pid);
    vm_process_become(vm);
    int r = socket_open(vm, &address, &fd);
    vm_process_become_self();
    return r < 0 ? r : fd;
}

// A socket left over from a dead process with the same pid refuses connections.
static bool is_not_there(int r)
{
    return r == -ENOENT || r == -ECONNREFUSED;
}

static int vm_signal(const struct vm_process *vm, int number)
{
    int r = vm->pidfd < 0 ? kill(vm->pid, number)
                          : (int)syscall(SYS_pidfd_send_signal, vm->pidfd, number, NULL, 0);
    return r < 0 ? -errno : 0;
}

static void file_remove(const struct vm_process *vm, int folder_fd, const char *file)
{
    vm_process_become(vm);
    unlinkat(folder_fd, file, 0);
    vm_process_become_self();
}

// Returns whether the folder is the machine's own /tmp.
static bool is_own_tmp(int folder_fd)
{
    struct stat here, there;
    return stat("/tmp", &here) == 0 && fstat(folder_fd, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// Makes the file that asks the VM to listen. Replaces an old file, which may belong to any user:
// the VM would not accept the old file. In the machine's /tmp, root removes the old file;
// elsewhere, only the VM's user.
static int mark_make(const struct vm_process *vm, const char *file)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    if (is_own_tmp(vm->tmp_fd))
        unlinkat(vm->tmp_fd, file, 0);
    vm_process_become(vm);
    unlinkat(vm->tmp_fd, file, 0);
    int fd = openat(vm->tmp_fd, file, flags, 0600), r = fd < 0 ? -errno : 0;
    vm_process_become_self();
    close_fd(fd);
    return r;
}

static int vm_wake(const struct request *request, const char *file, struct err *err)
{
    const struct vm_process *vm = request->vm;
    int r = mark_make(vm, file);
    if (r < 0)
        return err_errno(err, r, "%d: /tmp/%s", (int)vm->pid, file);
    if ((r = vm_signal(vm, SIGQUIT)) == 0)
        r = -ENOENT;
    const nsec_t end = nsec_now(CLOCK_MONOTONIC) + READY_MS * NSEC_PER_MSEC;
    while (is_not_there(r) && nsec_now(CLOCK_MONOTONIC) < end) {
        r = wait_for(request, NULL, STEP_MS);
        if (r == 0 && (r = vm_signal(vm, 0)) == 0)
            r = vm_connect(vm);
    }
    file_remove(vm, vm->tmp_fd, file);
    if (is_not_there(r))
        return err_set(err, -ETIMEDOUT,
                       "%d: the Java VM does not listen (-XX:+DisableAttachMechanism?)",
                       (int)vm->pid);
    return r < 0 ? err_errno(err, r, "%d", (int)vm->pid) : r;
}

static int request_send(int fd, const char *library, const char *options)
{
    char request[2 * PATH_MAX + 64];
    // Version, command, and three arguments, each with a terminator.
    int n = snprintf(request, sizeof(request), "1%cload%c%s%ctrue%c%s%c", 0, 0, library, 0, 0,
                     options, 0);
    if (n < 0 || (size_t)n >= sizeof(request))
        return -ENAMETOOLONG;
    for (size_t done = 0; done < (size_t)n;) {
        ssize_t sent = send(fd, request + done, (size_t)n - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -errno;
        done += sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

static int answer_receive(const struct request *request, int fd, char *text, size_t size)
{
    size_t n = 0;
    const nsec_t end = nsec_now(CLOCK_MONOTONIC) + ANSWER_MS * NSEC_PER_MSEC;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (n < size - 1) {
        nsec_t left = end - nsec_now(CLOCK_MONOTONIC);
        int r = left > 0 ? wait_for(request, &ready, (int)(left / NSEC_PER_MSEC)) : 0;
        if (r <= 0)
            return r < 0 ? r : -ETIMEDOUT;
        ssize_t got = read(fd, text + n, size - 1 - n);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = 0;
    return 0;
}

// The answer is "0", then the result of the agent's entry point: "return code: 0", or "0" from
// older VMs.
static int answer_judge(char *text, pid_t pid, struct err *err)
{
    char *line = strchr(text, '\n'), *code;
    if (!line || strtol(text, NULL, 10) != 0) {
        text[strcspn(text, "\r")] = 0;
        for (char *at = text; *at; at++)
            *at = *at == '\n' ? ' ' : *at;
        return err_set(err, -EBADMSG, "%d: the Java VM loads no agent: %s", (int)pid, text);
    }
    line++;
    code = strstr(line, "return code: ");
    code = code ? code + strlen("return code: ") : line;
    if (code[0] == '0' && (code[1] == '\n' || !code[1]))
        return 0;
    line[strcspn(line, "\n")] = 0;
    return err_set(err, -EBADMSG,
                   "%d: the agent refuses (%s); its reason is in the program's standard error",
                   (int)pid, line);
}

// `library` is the path as the VM sees it.
static int vm_ask(const struct request *request, const char *library, struct err *err)
{
    char answer[ANSWER_MAX], file[32];
    const struct vm_process *vm = request->vm;
    int fd = vm_connect(vm);
    snprintf(file, sizeof(file), ".attach_pid%d", (int)vm->own_pid);
    if (is_not_there(fd))
        fd = vm_wake(request, file, err);
    else if (fd < 0)
        return err_errno(err, fd, "%d", (int)vm->pid);
    if (fd < 0)
        return fd;
    int r = request_send(fd, library, request->options);
    if (r == 0)
        r = answer_receive(request, fd, answer, sizeof(answer));
    close(fd);
    if (r < 0)
        return err_errno(err, r, "%d: the Java VM", (int)vm->pid);
    return answer_judge(answer, vm->pid, err);
}

// Copies the library into the VM's files.

static int bytes_copy(int from, int to)
{
    struct stat st;
    if (fstat(from, &st) < 0 || fchmod(to, 0755) < 0)
        return -errno;
    for (off_t done = 0; done < st.st_size;) {
        ssize_t n = sendfile(to, from, &done, (size_t)(st.st_size - done));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

static int copy_make(const struct vm_process *vm, int folder_fd, const char *name,
                     const char *library)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int from CLEANUP(close_fdp) = open(library, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    vm_process_become(vm);
    int to CLEANUP(close_fdp) = openat(folder_fd, name, flags, 0700);
    int r = to < 0 ? -errno : bytes_copy(from, to);
    if (to >= 0 && r < 0)
        unlinkat(folder_fd, name, 0);
    vm_process_become_self();
    return r;
}

static int copy_ask(const struct request *request, const char *library, struct err *err)
{
    char name[64], path[128];
    const char *folder;
    uint64_t random;
    int folder_fd CLEANUP(close_fdp) = vm_process_folder(request->vm, &folder);
    int r = folder_fd < 0 ? folder_fd : getrandom(&random, sizeof(random), 0) < 0 ? -errno : 0;
    if (r < 0)
        return err_errno(err, r, "%d: a folder for the agent", (int)request->vm->pid);
    snprintf(name, sizeof(name), AGENT_LIBRARY_NAME "-%016" PRIx64 ".so", random);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    r = copy_make(request->vm, folder_fd, name, library);
    if (r < 0)
        return err_errno(err, r, "%d: its %s", (int)request->vm->pid, path);
    r = vm_ask(request, path, err);
    file_remove(request->vm, folder_fd, name);
    return r;
}

int vm_attach_load(pid_t pid, const char *library, const char *options, const sigset_t *waiting,
                   struct err *err)
{
    struct vm_process vm;
    int r = vm_process_open(pid, &vm, err);
    if (r < 0)
        return r;
    struct request request = {&vm, options, waiting};
    if (vm.agent[0])
        r = vm_ask(&request, vm.agent, err);
    else if (vm_process_sees(&vm, library))
        r = vm_ask(&request, library, err);
    else
        r = copy_ask(&request, library, err);
    vm_process_close(&vm);
    return r;
}
