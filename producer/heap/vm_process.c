// SPDX-License-Identifier: Apache-2.0
//
// The owner of a container controls the files of a VM in it. Therefore the VM's folders are held by
// descriptors and looked up as the VM itself would look them up; links in them cannot lead
// elsewhere.
//
// A VM judges a client by its user, and root outside a user namespace is unknown inside. Therefore
// the VM is asked as its own user.
#include "producer/heap/vm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "producer/ground/proc_text.h"
#include "producer/heap/agent_options.h"

#define STATUS_MAX 8192
#define DELETED    " (deleted)"

struct vm_status {
    struct vm_process process; // ids only
    bool takes_sigquit;
};

// The second id is the effective one.
static uint32_t effective_id(struct span line)
{
    uint64_t id = 0;
    span_take_u64(&line, &id);
    span_take_u64(&line, &id);
    return (uint32_t)id;
}

static int status_read(pid_t pid, struct vm_status *ret)
{
    char text[STATUS_MAX], word[20];
    ssize_t n = text_file_read_once(text, sizeof(text), "/proc", "/%d/status", (int)pid);
    if (n <= 0)
        return n == 0 || n == -ENOENT ? -ESRCH : (int)n;
    struct span status = span_over(text, (size_t)n), ids = span_value_of(status, "NSpid:");
    struct span caught = span_trim(span_value_of(status, "SigCgt:"));
    uint64_t own_pid = (uint64_t)pid;
    while (span_take_u64(&ids, &own_pid))
        continue;
    snprintf(word, sizeof(word), "%.*s", (int)span_size(caught), caught.pos);
    *ret = (struct vm_status){
        .process = {.pid = pid,
                    .own_pid = (pid_t)own_pid,
                    .pidfd = -1,
                    .uid = effective_id(span_value_of(status, "Uid:")),
                    .gid = effective_id(span_value_of(status, "Gid:"))},
        .takes_sigquit = strtoull(word, NULL, 16) >> (SIGQUIT - 1) & 1,
    };
    return 0;
}

static bool is_agent(const char *path)
{
    static const char name[] = AGENT_LIBRARY_NAME;
    const char *slash = strrchr(path, '/');
    return slash && strncmp(slash + 1, name, sizeof(name) - 1) == 0;
}

// Converts a path of `maps` to the process's own path: without the process's root, which is present
// for processes that have another root, and without the note that the file was removed.
static void agent_keep(const char *root, char *path, char *ret)
{
    size_t n_root = strlen(root), n = strlen(path);
    const size_t n_deleted = sizeof(DELETED) - 1;
    if (n > n_deleted && strcmp(path + n - n_deleted, DELETED) == 0)
        path[n - n_deleted] = '\0';
    if (n_root > 1 && strncmp(path, root, n_root) == 0 && path[n_root] == '/')
        path += n_root;
    snprintf(ret, PATH_MAX, "%s", path);
}

// Returns whether a VM's library is mapped. Copies the path of a loaded agent, if any, to `agent`
// (NULL: not wanted).
static bool maps_look(pid_t pid, char *agent)
{
    char path[64], root[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
    ssize_t n = readlink(path, root, sizeof(root) - 1);
    root[n > 0 ? n : 0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !(found && !agent) && getline(&line, &size, maps) > 0) {
        char *file = strchr(line, '/');
        if (!file)
            continue;
        file[strcspn(file, "\n")] = '\0';
        found |= strstr(file, "/libjvm.so") || strstr(file, "/libj9vm");
        if (agent && is_agent(file))
            agent_keep(root, file, agent);
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

enum vm_state vm_process_state(pid_t pid)
{
    struct vm_status status;
    if (status_read(pid, &status) < 0 || !maps_look(pid, NULL))
        return VM_NONE;
    return status.takes_sigquit ? VM_READY : VM_DEAF;
}

void vm_process_close(struct vm_process *vm)
{
    vm->pidfd = close_fd(vm->pidfd);
    vm->root_fd = close_fd(vm->root_fd);
    vm->tmp_fd = close_fd(vm->tmp_fd);
}

static int folders_open(struct vm_process *vm)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/root", (int)vm->pid);
    vm->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (vm->root_fd < 0)
        return -errno;
    vm->tmp_fd = open_in_root(vm->root_fd, "tmp", O_PATH | O_DIRECTORY);
    return vm->tmp_fd < 0 ? vm->tmp_fd : 0;
}

int vm_process_open(pid_t pid, struct vm_process *ret, struct err *err)
{
    struct vm_status status;
    // From here on signals reach only this process, even if its pid is reused.
    int pidfd CLEANUP(close_fdp) = (int)syscall(SYS_pidfd_open, pid, 0);
    int r = status_read(pid, &status);
    if (r < 0)
        return r == -ESRCH ? err_set(err, r, "%d: no such process", (int)pid)
                           : err_errno(err, r, "%d", (int)pid);
    struct vm_process *vm = &status.process;
    vm->root_fd = vm->tmp_fd = -1;
    if (!maps_look(pid, vm->agent))
        return err_set(err, -ENOEXEC, "%d: not a Java VM, or one that this user may not examine",
                       (int)pid);
    if (!status.takes_sigquit)
        return err_set(
            err, -ENOEXEC,
            "%d: this Java VM takes no agents now (it starts or ends, or runs with -Xrs)",
            (int)pid);
    r = folders_open(vm);
    if (r < 0) {
        vm_process_close(vm);
        return err_errno(err, r, "%d: its /tmp", (int)pid);
    }
    vm->pidfd = steal_fd(&pidfd);
    *ret = *vm;
    return 0;
}

bool vm_process_sees(const struct vm_process *vm, const char *path)
{
    struct stat here, there;
    int fd CLEANUP(close_fdp) = open_in_root(vm->root_fd, path + 1, O_PATH);
    return fd >= 0 && stat(path, &here) == 0 && fstat(fd, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// Returns whether the VM's user may put a library into the folder.
static bool takes_libraries(const struct vm_process *vm, int fd)
{
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0 || (fs.f_flag & (ST_NOEXEC | ST_RDONLY)))
        return false;
    vm_process_become(vm);
    int r = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS);
    vm_process_become_self();
    return r == 0;
}

int vm_process_folder(const struct vm_process *vm, const char **ret)
{
    static const char *const folders[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};
    for (size_t i = 0; i < ELEMENTS(folders); i++) {
        int fd = open_in_root(vm->root_fd, folders[i] + 1, O_PATH | O_DIRECTORY);
        if (fd >= 0 && takes_libraries(vm, fd)) {
            *ret = folders[i];
            return fd;
        }
        close_fd(fd);
    }
    return -ENOENT;
}

void vm_process_become(const struct vm_process *vm)
{
    if (geteuid() != 0)
        return;
    // If the change of ids is not permitted, root asks the VM.
    (void)!setgroups(0, NULL); // no groups of root's; they are not needed again
    if (setegid(vm->gid) == 0)
        (void)!seteuid(vm->uid);
}

void vm_process_become_self(void)
{
    (void)!seteuid(getuid());
    (void)!setegid(getgid());
}
