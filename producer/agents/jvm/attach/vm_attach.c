// SPDX-License-Identifier: Apache-2.0
//
// A VM listens on /tmp/.java_pidPID from the first time that somebody asks for it: by a file
// /tmp/.attach_pidPID and SIGQUIT. Without that file a VM prints its threads on SIGQUIT, and any
// other program dies of it. So the signal goes only to a process that has a VM's library mapped and
// catches it. PID and /tmp are those that the VM sees, in its own namespaces.
#include "producer/agents/jvm/attach/vm_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "producer/sources/proc_text.h"

#define READY_MS   10000
#define ANSWER_MS  30000
#define STEP_MS    20
#define ANSWER_MAX 4096

struct vm {
    pid_t pid, own_pid;
    char root[64]; // the VM's file system, seen from here
};

static const char *status_line(const char *status, const char *key)
{
    const char *at = strstr(status, key);
    return at ? at + strlen(key) : NULL;
}

static int status_read(pid_t pid, char *text, size_t size, struct err *err)
{
    ssize_t n = text_file_read_once(text, size - 1, "/proc", "/%d/status", (int)pid);
    text[n > 0 ? n : 0] = 0;
    if (n == -ENOENT || n == -ESRCH || n == 0)
        return err_set(err, -ESRCH, "%d: no such process", (int)pid);
    return n < 0 ? err_errno(err, (int)n, "%d", (int)pid) : 0;
}

int vm_attach_own_pid(pid_t pid, pid_t *ret, struct err *err)
{
    char status[8192];
    int r = status_read(pid, status, sizeof(status), err);
    if (r < 0)
        return r;
    const char *at = status_line(status, "\nNSpid:");
    *ret = pid;
    for (char *end; at && *at != '\n' && *at; at = end) {
        long id = strtol(at, &end, 10);
        if (end == at)
            break;
        *ret = (pid_t)id;
    }
    return 0;
}

static bool maps_a_vm(pid_t pid)
{
    char path[64], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = strstr(line, "/libjvm.so") || strstr(line, "/libj9vm");
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

static int vm_find(pid_t pid, struct vm *ret, struct err *err)
{
    char status[8192], path[80];
    struct stat st;
    int r = status_read(pid, status, sizeof(status), err);
    if (r == 0)
        r = vm_attach_own_pid(pid, &ret->own_pid, err);
    if (r < 0)
        return r;
    ret->pid = pid;
    snprintf(ret->root, sizeof(ret->root), "/proc/%d/root", (int)pid);
    snprintf(path, sizeof(path), "%s/tmp", ret->root);
    const char *caught = status_line(status, "\nSigCgt:");
    if (!maps_a_vm(pid))
        return err_set(err, -ENOEXEC, "%d: no Java VM, or not one that may be looked at", (int)pid);
    // A symbolic link would lead out of its root.
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, -ENOEXEC, "%d: its /tmp cannot be looked at, or is no folder",
                       (int)pid);
    if (!caught || !(strtoull(caught, NULL, 16) >> (SIGQUIT - 1) & 1))
        return err_set(
            err, -ENOEXEC,
            "%d: this Java VM takes no agents now (it starts or ends, or runs with -Xrs)",
            (int)pid);
    return 0;
}

static int vm_connect(const struct vm *vm)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/tmp/.java_pid%d", vm->root,
             (int)vm->own_pid);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

// A socket that is left over from a process with the same id refuses.
static bool is_not_there(int r)
{
    return r == -ENOENT || r == -ECONNREFUSED;
}

static int vm_wake(const struct vm *vm, struct err *err)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tmp/.attach_pid%d", vm->root, (int)vm->own_pid);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != EEXIST)
        return err_errno(err, -errno, "%s", path);
    if (fd >= 0)
        close(fd);
    int r = kill(vm->pid, SIGQUIT) < 0 ? -errno : -ENOENT;
    for (int ms = 0; is_not_there(r) && ms < READY_MS; ms += STEP_MS) {
        poll(NULL, 0, STEP_MS);
        r = kill(vm->pid, 0) < 0 ? -errno : vm_connect(vm);
    }
    if (fd >= 0)
        unlink(path);
    if (is_not_there(r))
        return err_set(err, -ETIMEDOUT,
                       "%d: the Java VM does not listen (-XX:+DisableAttachMechanism?)",
                       (int)vm->pid);
    return r < 0 ? err_errno(err, r, "%d", (int)vm->pid) : r;
}

static int request_send(int fd, const char *library, const char *options)
{
    char request[2 * PATH_MAX + 64];
    // Version, command, and three arguments, each with a zero behind it.
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

static int answer_receive(int fd, char *text, size_t size)
{
    size_t n = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (n < size - 1) {
        if (poll(&ready, 1, ANSWER_MS) == 0)
            return -ETIMEDOUT;
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

// "0", then what the agent's entry point returned: "return code: 0", or "0" from older VMs.
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

static bool is_seen_by(const struct vm *vm, const char *library)
{
    struct stat here, there;
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s%s", vm->root, library) < (int)sizeof(path) &&
           stat(library, &here) == 0 && stat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

// Into the VM's /tmp; *ret_path is from here, what the VM calls it is behind its root.
static int library_copy(const struct vm *vm, const char *library, char *ret_path, size_t size)
{
    struct stat st;
    if (snprintf(ret_path, size, "%s/tmp/libtiallocsample-XXXXXX", vm->root) >= (int)size)
        return -ENAMETOOLONG;
    int from = open(library, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    int to = mkostemp(ret_path, O_CLOEXEC), r = to < 0 ? -errno : 0;
    if (r == 0 && (fstat(from, &st) < 0 || fchmod(to, 0755) < 0))
        r = -errno;
    for (off_t done = 0; r == 0 && done < st.st_size;) {
        ssize_t n = sendfile(to, from, &done, (size_t)(st.st_size - done));
        if (n <= 0)
            r = n < 0 ? -errno : -EIO;
    }
    close(from);
    if (to >= 0)
        close(to);
    if (r < 0 && to >= 0)
        unlink(ret_path);
    return r;
}

static int vm_ask(const struct vm *vm, const char *library, const char *options, struct err *err)
{
    char answer[ANSWER_MAX];
    int fd = vm_connect(vm);
    if (is_not_there(fd))
        fd = vm_wake(vm, err);
    else if (fd < 0)
        return err_errno(err, fd, "%d", (int)vm->pid);
    if (fd < 0)
        return fd;
    int r = request_send(fd, library, options);
    if (r == 0)
        r = answer_receive(fd, answer, sizeof(answer));
    close(fd);
    if (r < 0)
        return err_errno(err, r, "%d: the Java VM", (int)vm->pid);
    return answer_judge(answer, vm->pid, err);
}

int vm_attach_load(pid_t pid, const char *library, const char *options, struct err *err)
{
    struct vm vm;
    char copy[PATH_MAX];
    int r = vm_find(pid, &vm, err);
    if (r < 0)
        return r;
    if (is_seen_by(&vm, library))
        return vm_ask(&vm, library, options, err);
    r = library_copy(&vm, library, copy, sizeof(copy));
    if (r < 0)
        return err_errno(err, r, "%s", copy);
    r = vm_ask(&vm, copy + strlen(vm.root), options, err);
    unlink(copy);
    return r;
}
