// SPDX-License-Identifier: Apache-2.0
//
// mmheap-attach PID LIBRARY: loads libmmheap.so into a running process that was not prepared for
// it. With "detach" as a third argument, and the process's ring as descriptor 3, the program
// removes the library's hooks instead. The recorder does not do this work itself, so that nothing
// that happens here or in the process can delay the recorder, and so that the recorder does not
// link libunwind.
//
// One thread is borrowed; the others run on. All threads are tried in turn, again and again, until
// one is at a point where it may call dlopen(). This takes two seconds at most. If the process
// executes another program meanwhile, the recorder decides whether to begin anew.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/agents/heap/attach/jail.h"
#include "producer/agents/heap/attach/priority.h"
#include "producer/agents/heap/attach/safe_point.h"
#include "producer/agents/heap/attach/target.h"
#include "producer/agents/heap/attach/tracee.h"
#include "producer/ground/ids.h"
#include "producer/heap/attach_abi.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_owner.h"

#define SEARCH_TIME    (2 * NSEC_PER_SEC)
#define TRACED_TIME    (3 * NSEC_PER_SEC) // wait for another process that traces the target
#define STOP_TIME      NSEC_PER_SEC
#define STUCK_MAX      3 // the search ends after this many stops that took longer than STOP_TIME
#define DETACH_TIME    (500 * NSEC_PER_MSEC)
#define LEAVE_TIME     (50 * NSEC_PER_MSEC)
#define CALL_TIME      (2 * NSEC_PER_SEC)
#define BEGIN_TIME     (3 * NSEC_PER_SEC) // longer than a woken program waits for its recorder
#define PAUSE_NS       2000000
#define BEGIN_PAUSE_NS 20000000
#define STACK_BYTES    (256u << 10)
#define ANSWER_TIME    (60 * NSEC_PER_MSEC)
#define FIRST_QUESTION 1
#define NOW            2 // RTLD_NOW
#define LIFE_SECONDS   15

// Functions of the library.
enum function { FUNCTION_ATTACH, FUNCTION_ANSWER, FUNCTION_DETACH, FUNCTIONS_N };

// Libraries that a process with another root may lack, in the order of their loading.
enum copy { COPY_ZLIB, COPY_LZMA, COPY_UNWINDER, COPY_LIBRARY, COPIES_N };

static const char *const copy_names[] = {
    [COPY_ZLIB] = "libz.so.1",
    [COPY_LZMA] = "liblzma.so.5",
    [COPY_UNWINDER] = "libunwind.so.8",
    [COPY_LIBRARY] = HEAP_LIBRARY_FILE,
};

struct attach {
    struct target target;
    struct tracee tracee;
    struct priority *priority; // NULL: priorities stay as they are
    const char *library;
    struct heap_header header;
    uint64_t entries[FUNCTIONS_N]; // in the library's file
    uint64_t memory;               // in the process: text at its start, stack at its end
    int64_t ring_there;            // descriptors in the process; -1: none
    int64_t copies_there[COPIES_N];
    int ring_fd; // the ring in this process
    int mem_fd;
    bool was_starting; // the libraries were not all loaded when the target was read
    int n_filters;     // of seccomp
    struct err jailed; // why the filters are refused; empty: they are not
    nsec_t stopped;    // time at which the thread was stopped
    nsec_t longest;    // longest stop of a thread
    int stuck_tid;     // did not stop, and is left out of the next look; 0: none
    int n_stuck;
};

static void forget_copies(struct attach *a)
{
    for (size_t i = 0; i < COPIES_N; i++)
        a->copies_there[i] = -1;
}

static int write_memory(struct attach *a, uint64_t address, const void *bytes, size_t size)
{
    return pwrite(a->mem_fd, bytes, size, (off_t)address) == (ssize_t)size ? 0 : -EIO;
}

static int allocate(struct attach *a, struct err *err)
{
    const uint64_t args[6] = {
        0, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    int64_t r = tracee_syscall(&a->tracee, SYS_mmap, args);
    if (r < 0 && r > -4096)
        return err_errno(err, (int)r, "memory in the process");
    a->memory = (uint64_t)r;
    return 0;
}

// Makes a memfd in the process and opens it here.
static int make_memfd(struct attach *a, const char *name, int64_t *ret_there, int *ret_fd,
                      struct err *err)
{
    int r = write_memory(a, a->memory, name, strlen(name) + 1);
    if (r < 0)
        return err_errno(err, r, "memory of the process");
    const uint64_t args[6] = {a->memory, MFD_CLOEXEC | MFD_ALLOW_SEALING};
    *ret_there = tracee_syscall(&a->tracee, SYS_memfd_create, args);
    if (*ret_there < 0)
        return err_errno(err, (int)*ret_there, "memfd_create in the process");
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", a->target.pid, (int)*ret_there);
    *ret_fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (*ret_fd < 0)
        return err_errno(err, -errno, "%s", path);
    // Another thread may have put any file at that number. Only a new memfd can be sealed and has
    // no seals.
    if (fcntl(*ret_fd, F_GET_SEALS) != 0) {
        *ret_fd = close_fd(*ret_fd);
        return err_set(err, -EPERM, "the process has changed its descriptors meanwhile");
    }
    return 0;
}

static int make_ring(struct attach *a, struct err *err)
{
    int r = make_memfd(a, HEAP_RING_NAME, &a->ring_there, &a->ring_fd, err);
    if (r < 0)
        return r;
    if (ftruncate(a->ring_fd, (off_t)HEAP_MEMORY_BYTES(a->header.ring_bytes)) < 0 ||
        fcntl(a->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
        pwrite(a->ring_fd, &a->header, sizeof(a->header), 0) != (ssize_t)sizeof(a->header))
        return err_errno(err, -errno, "shared memory");
    return 0;
}

// Copies a library for a process with another root, which cannot open the library by its path. The
// loader takes two libraries of the same path for one, and a descriptor can have the number of an
// earlier one. Therefore the path of each library has another number of slashes.
static int copy_library(struct attach *a, const char *path, enum copy copy, char *ret, size_t size,
                        struct err *err)
{
    int64_t *number = &a->copies_there[copy];
    int there CLEANUP(close_fdp) = -1;
    int here CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    if (here < 0)
        return err_errno(err, -errno, "%s", path);
    int r = make_memfd(a, copy_names[copy], number, &there, err);
    if (r < 0)
        return r;
    char part[65536];
    ssize_t n;
    while ((n = read(here, part, sizeof(part))) > 0)
        if (write(there, part, (size_t)n) != n)
            return err_errno(err, -EIO, "copy of %s", path);
    if (n < 0)
        return err_errno(err, -errno, "%s", path);
    snprintf(ret, size, "/proc/self/fd%.*s%d", copy + 1, "////", (int)*number);
    return 0;
}

// Makes the process load a library. The loader decides whether it can.
//
// dlopen() drops the thread's pending dlerror(). The error is in a private variable of glibc. This
// code cannot save the error, because the place of the variable is not known for certain.
static int open_there(struct attach *a, const char *path, struct err *err)
{
    const uint64_t args[2] = {a->memory, NOW};
    if (write_memory(a, a->memory, path, strlen(path) + 1) < 0)
        return err_set(err, -EIO, "memory of the process cannot be written");
    int r = tracee_call(&a->tracee, a->target.dlopen_address, a->memory + STACK_BYTES, args);
    return r < 0 ? err_errno(err, r, "dlopen in the process") : 0;
}

static int open_copy_there(struct attach *a, const char *path, enum copy copy, struct err *err)
{
    char there[64];
    int r = copy_library(a, path, copy, there, sizeof(there), err);
    return r < 0 ? r : open_there(a, there, err);
}

// Brings this machine's libunwind into a root that has none, with the libraries that libunwind
// needs and the root lacks. libmmheap.so finds libunwind by its name among the loaded libraries.
static int bring_unwinder(struct attach *a, struct err *err)
{
    int r = open_there(a, copy_names[COPY_UNWINDER], err);
    if (r < 0 || target_has_library(&a->target, copy_names[COPY_UNWINDER]))
        return r;
    for (enum copy copy = COPY_ZLIB; copy <= COPY_UNWINDER && r == 0; copy++) {
        struct link_map *here;
        void *handle = dlopen(copy_names[copy], RTLD_NOW | RTLD_NOLOAD); // linked to libunwind
        if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &here) < 0)
            continue;
        r = open_there(a, copy_names[copy], err);
        if (r == 0 && !target_has_library(&a->target, copy_names[copy]))
            r = open_copy_there(a, here->l_name, copy, err);
    }
    return r;
}

static bool has_proc(const struct attach *a)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/root/proc/self", a->target.pid);
    return lstat(path, &st) == 0;
}

static int load_library(struct attach *a, struct err *err)
{
    int r = a->target.same_files ? open_there(a, a->library, err) : bring_unwinder(a, err);
    if (r == 0 && !a->target.same_files)
        r = open_copy_there(a, a->library, COPY_LIBRARY, err);
    if (r == 0)
        r = target_find_library(&a->target);
    if (r == -ENOENT && !a->target.same_files && !has_proc(a))
        return err_set(err, -ELIBBAD,
                       "it cannot load %s: its root lacks the file, and a /proc to open a copy",
                       a->library);
    if (r == -ENOENT)
        return err_set(err, -ELIBBAD, "it cannot load %s", a->library);
    return r;
}

static int other_version(struct err *err)
{
    return err_set(err, -EPROTO, "it has loaded another version of %s (restart the process)",
                   HEAP_LIBRARY_FILE);
}

// Returns the function's result, or the failure of the call.
static int call_library(struct attach *a, enum function function, uint64_t argument,
                        struct err *err)
{
    int32_t result = -EIO;
    const uint64_t args[2] = {argument, a->memory};
    int r = write_memory(a, a->memory, &result, sizeof(result));
    if (r == 0)
        r = tracee_call(&a->tracee, a->target.library_base + a->entries[function],
                        a->memory + STACK_BYTES, args);
    if (r < 0)
        return err_errno(err, r, "the library in the process");
    if (pread(a->mem_fd, &result, sizeof(result), (off_t)a->memory) != (ssize_t)sizeof(result))
        result = -EIO;
    r = result;
    if (r == -EBUSY)
        return err_set(err, r, "it is being profiled already");
    if (r == -EINPROGRESS)
        return err_set(err, r, "one of its threads is beginning or ending a profile");
    if (r == -ELIBACC)
        return err_set(err, r,
                       "its root file system has no libunwind, and it cannot load this machine's");
    if (r == -EPROTO)
        return other_version(err);
    return r < 0 ? err_errno(err, r, "the library in the process") : 0;
}

static void close_there(struct attach *a, int64_t fd)
{
    const uint64_t args[6] = {(uint64_t)fd};
    if (fd >= 0)
        tracee_syscall(&a->tracee, SYS_close, args);
}

static int attach_there(struct attach *a, struct err *err)
{
    int r = 0;
    if (a->target.is_abandoned)
        r = call_library(a, FUNCTION_DETACH, 0, err);
    if (r == 0 && !a->target.library_base)
        r = load_library(a, err);
    if (r == 0)
        r = make_ring(a, err);
    if (r < 0)
        return r;
    int64_t fd = a->ring_there;
    a->ring_there = -1; // the function closes it
    return call_library(a, FUNCTION_ATTACH, (uint64_t)fd, err);
}

// Returns false if the process has executed another program: mem_fd is open on the memory of the
// old program, which no longer exists, and the data in `target` are wrong for the new program.
static bool is_same_program(const struct attach *a)
{
    uint8_t byte;
    return pread(a->mem_fd, &byte, 1, (off_t)a->target.syscall_address) == 1;
}

static int check_program(const struct attach *a, struct err *err)
{
    return is_same_program(a) ? 0 : err_set(err, -ESTALE, "it has just executed another program");
}

// The work inside the process while the thread is borrowed.
static int work(struct attach *a, enum function function, struct err *err)
{
    int r = tracee_borrow(&a->tracee, a->mem_fd, a->target.syscall_address,
                          a->target.sigreturn_address);
    if (r < 0)
        return err_errno(err, r, "stack of the process");
    r = allocate(a, err);
    if (r < 0)
        return r;
    r = function == FUNCTION_ATTACH ? attach_there(a, err) : call_library(a, function, 0, err);
    if (r != -EFAULT && r != -ETIMEDOUT && r != -ESRCH) {
        const uint64_t args[6] = {a->memory, STACK_BYTES};
        close_there(a, a->ring_there);
        for (size_t i = 0; i < COPIES_N; i++)
            close_there(a, a->copies_there[i]);
        tracee_syscall(&a->tracee, SYS_munmap, args);
    }
    return r;
}

// Stops one thread. Returns 1 if it is at a safe point, 0 if it runs on, or a negative errno. If a
// thread does not stop in time, the lost time is added to *deadline, because other threads, or the
// same thread a little later, may stop.
static int try_thread(struct attach *a, int tid, nsec_t *deadline)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (tid == a->stuck_tid || !target_may_stop(&a->target, tid))
        return 0;
    a->stopped = now;
    priority_raise(a->priority, tid);
    bool is_late = *deadline < now + STOP_TIME;
    int r = tracee_stop(tid, is_late ? *deadline : now + STOP_TIME, &a->tracee);
    if (r == 0) {
        if (a->n_filters > 0)
            jail_judge(tid, &a->jailed);
        if (!a->jailed.text[0] && safe_point_is_here(&a->target, &a->tracee))
            return 1;
        tracee_release(&a->tracee);
    }
    priority_restore(a->priority);
    if (r == -EPERM && !target_may_stop(&a->target, tid))
        return 0; // the thread has just ended
    if (r == -ETIMEDOUT && is_late)
        return 0; // perhaps the machine is busy: the thread had less than STOP_TIME
    if (r == -ETIMEDOUT && ++a->n_stuck < STUCK_MAX) {
        a->stuck_tid = tid;
        *deadline += nsec_now(CLOCK_MONOTONIC) - now;
        return 0;
    }
    return r == -ESRCH ? 0 : r;
}

static bool is_refusal(int error)
{
    return error == EPERM || error == EACCES;
}

// Sets the text for a refused ptrace. Root is refused if root lacks a capability, or by a filter of
// system calls.
static int no_right(struct err *err)
{
    if (geteuid() != 0)
        return err_set(err, -EPERM, "this user may not trace it");
    return err_set(err, -EPERM, "the recorder may not trace it (" FOREIGN_RIGHTS_HINT ")");
}

static void release(struct attach *a)
{
    tracee_release(&a->tracee);
    priority_restore(a->priority);
}

// Waits for a program that is just being started.
static int read_target(struct attach *a, int pid, struct err *err)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + SEARCH_TIME;
    for (;;) {
        *err = (struct err){0};
        int r = target_read(pid, a->library, &a->target, err);
        if (r != -EAGAIN)
            return r;
        if (nsec_now(CLOCK_MONOTONIC) >= deadline)
            return -EOPNOTSUPP;
        a->was_starting = true;
        close_fd(a->target.library_fd);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

static int find_thread(struct attach *a, nsec_t deadline, struct err *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", a->target.pid);
    bool is_refused = false; // by the last look, although no other process traced the target
    for (;;) {
        DIR *dir CLEANUP(closedirp) = opendir(path);
        if (!dir)
            return err_set(err, -ESRCH, "it has ended");
        int r = 0, stuck_before = a->stuck_tid;
        a->n_filters = target_n_filters(&a->target);
        if (a->n_filters < 0)
            err_set(&a->jailed, -EPERM, "some of its threads are in a seccomp jail of their own");
        for (const struct dirent *entry; r == 0 && !a->jailed.text[0] && (entry = readdir(dir));) {
            int tid = atoi(entry->d_name);
            if (tid > 0 && nsec_now(CLOCK_MONOTONIC) < deadline)
                r = try_thread(a, tid, &deadline);
        }
        if (a->stuck_tid == stuck_before)
            a->stuck_tid = 0;
        if (r == 1 && a->was_starting) { // the loader has loaded all libraries by now
            release(a);
            a->was_starting = false;
            r = read_target(a, a->target.pid, err);
            if (r < 0)
                return r;
            continue;
        }
        if (r == 1)
            return 0;
        if (r == 0 && (r = check_program(a, err)) < 0)
            return r;
        if (r == -EPERM) {
            // Perhaps another recorder traces the process; this takes some milliseconds.
            r = target_check(a->target.pid, err);
            if (r == 0 && is_refused)
                return no_right(err);
            if (r < 0 && nsec_now(CLOCK_MONOTONIC) >= deadline)
                return r;
            is_refused = r == 0;
            *err = (struct err){0};
            r = 0;
        }
        if (r == -EBUSY)
            return err_set(err, r, "it was just stopped");
        if (r == -ETIMEDOUT)
            return err_set(err, r, "one of its threads does not leave the kernel");
        if (r < 0)
            return err_errno(err, r, "ptrace");
        if (a->jailed.text[0]) {
            *err = a->jailed;
            return -EPERM;
        }
        if (nsec_now(CLOCK_MONOTONIC) >= deadline)
            return err_set(err, -ETIMEDOUT,
                           "none of its threads was at a safe point: outside of allocator and "
                           "loader, on the thread's first stack, with frames that can be followed");
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

static int borrow_for(struct attach *a, enum function function, struct err *err)
{
    int r = find_thread(a, nsec_now(CLOCK_MONOTONIC) + SEARCH_TIME, err);
    if (r < 0)
        return r;
    a->tracee.deadline = nsec_now(CLOCK_MONOTONIC) + CALL_TIME;
    r = check_program(a, err);
    if (r == 0)
        r = work(a, function, err);
    release(a);
    nsec_t stood_still = nsec_now(CLOCK_MONOTONIC) - a->stopped;
    a->longest = stood_still > a->longest ? stood_still : a->longest;
    if (a->tracee.swallowed_stop)
        kill(a->target.pid, a->tracee.swallowed_stop);
    return r;
}

// Finds the functions in the process's file, which may differ from the installed one.
static int find_functions(struct attach *a, struct err *err)
{
    static const char *const names[] = {"mmheap_attach", "mmheap_answer", "mmheap_detach"};
    bool is_there = a->target.library_base != 0;
    int own_fd CLEANUP(close_fdp) = is_there ? -1 : open(a->library, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < FUNCTIONS_N; i++)
        if (!(a->entries[i] = target_symbol(is_there ? a->target.library_fd : own_fd, names[i])))
            return is_there
                       ? other_version(err)
                       : err_set(err, -ELIBBAD,
                                 "%s does not belong to this version of mmheap-attach", a->library);
    return 0;
}

// Begins a profile. Tries again while another thread of the process begins or ends a profile: a
// program that was woken waits for its recorder there. The other thread may load the library, or
// leave an old profile, so the process is read anew each time.
static int begin_profile(struct attach *a, struct err *err)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + BEGIN_TIME;
    int r;
    while ((r = borrow_for(a, FUNCTION_ATTACH, err)) == -EINPROGRESS &&
           nsec_now(CLOCK_MONOTONIC) < deadline) {
        *err = (struct err){0};
        a->ring_fd = close_fd(a->ring_fd);
        a->target.library_fd = close_fd(a->target.library_fd);
        forget_copies(a);
        nanosleep(&(struct timespec){.tv_nsec = BEGIN_PAUSE_NS}, NULL);
        r = read_target(a, a->target.pid, err);
        if (r == 0)
            r = find_functions(a, err);
        if (r < 0)
            return r;
    }
    return r;
}

static bool becomes_answered(int ring_fd)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + ANSWER_TIME;
    unsigned answered = 0;
    while (pread(ring_fd, &answered, sizeof(answered), offsetof(struct heap_header, answered)) ==
               (ssize_t)sizeof(answered) &&
           answered != FIRST_QUESTION && nsec_now(CLOCK_MONOTONIC) < deadline)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return answered == FIRST_QUESTION;
}

// Opens a file with its owner's ids. With other ids, writing would need CAP_DAC_OVERRIDE, which a
// recorder does not have.
static int open_as_owner(const char *path)
{
    struct foreign_ids own;
    struct stat st;
    bool changed = stat(path, &st) == 0 && st.st_uid != geteuid() &&
                   foreign_ids_take(st.st_uid, st.st_gid, &own) == 0;
    int fd = open(path, O_RDWR | O_CLOEXEC), saved = errno;
    if (changed)
        foreign_ids_return(&own);
    errno = saved;
    return fd;
}

// Waits while a process is traced: another recorder does this for some milliseconds.
static int check_untraced(int pid, struct err *err)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + TRACED_TIME;
    int r;
    while ((r = target_check(pid, err)) == -EALREADY && nsec_now(CLOCK_MONOTONIC) < deadline) {
        *err = (struct err){0};
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return r;
}

static int prepare(struct attach *a, int pid, bool detach, struct err *err)
{
    char path[64];
    int r = check_untraced(pid, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    if ((a->mem_fd = open_as_owner(path)) < 0)
        return is_refusal(errno) ? no_right(err) : err_errno(err, -errno, "memory of the process");
    r = read_target(a, pid, err);
    if (r < 0 || (detach && !a->target.library_base))
        return r;
    r = find_functions(a, err);
    if (r < 0)
        return r;
    a->priority = priority_new();
    return 1;
}

// A borrowed thread does not wait for the locks of a busy allocator: another thread of the process
// answers later. Only a process that allocates nothing is asked again.
static int attach_to(struct attach *a, int pid, bool detach, struct err *err)
{
    int r = prepare(a, pid, detach, err);
    if (r <= 0)
        return r;
    a->header.ask = FIRST_QUESTION;
    r = detach ? borrow_for(a, FUNCTION_DETACH, err) : begin_profile(a, err);
    if (r == 0 && !detach && !becomes_answered(a->ring_fd)) {
        struct err ignored = {0};
        borrow_for(a, FUNCTION_ANSWER, &ignored);
    }
    a->priority = priority_free(a->priority);
    if (r < 0 && a->ring_fd >= 0)
        heap_owner_stop(a->ring_fd); // a late call may begin a profile, which no recorder reads
    return r;
}

static void answer(int result, nsec_t stopped, int fd, const char *text)
{
    struct attach_answer message = {
        .result = result,
        .stopped_us = (uint32_t)(stopped / NSEC_PER_USEC),
    };
    snprintf(message.text, sizeof(message.text), "%.*s", ATTACH_TEXT_MAX - 1, text);
    unix_socket_send(ATTACH_SOCKET_FD, &message, sizeof(message), fd, 0);
}

// Returns whether the process takes its hooks out itself: a process that allocates does so at its
// next sample, and its ring reports this.
static bool leaves_by_itself(void)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + LEAVE_TIME;
    unsigned gone = 0;
    while (pread(ATTACH_SOCKET_FD, &gone, sizeof(gone), offsetof(struct heap_header, gone)) ==
               (ssize_t)sizeof(gone) &&
           !gone && nsec_now(CLOCK_MONOTONIC) < deadline)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return gone;
}

// Leaves the work to a child, and waits for the child for a limited time. Returns false in the
// child, or if no child could be made.
static bool wait_for_child(void)
{
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + DETACH_TIME;
    pid_t child = fork();
    if (child <= 0)
        return false;
    while (waitpid(child, NULL, WNOHANG) == 0 && nsec_now(CLOCK_MONOTONIC) < deadline)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return true;
}

int main(int argc, char **argv)
{
    struct attach a = {.ring_there = -1, .ring_fd = -1, .mem_fd = -1};
    forget_copies(&a);
    struct err err = {0};
    uint32_t pid;
    bool detach = argc == 4 && str_eq(argv[3], "detach");
    if (argc < 3 || str_parse_u32(argv[1], &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return 2;
    // A signal that ends the recorder must not end this process while a thread is borrowed.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_SETMASK, &children, NULL);
    if (detach && (wait_for_child() || leaves_by_itself()))
        return 0;
    a.library = argv[2];
    if (!detach &&
        recv(ATTACH_SOCKET_FD, &a.header, sizeof(a.header), 0) != (ssize_t)sizeof(a.header))
        return 2;
    // If a system call does not return, the alarm ends this process, and a borrowed thread goes on.
    signal(SIGALRM, SIG_DFL);
    alarm(LIFE_SECONDS);
    int r = attach_to(&a, (int)pid, detach, &err);
    if (!detach)
        answer(r, a.longest, r == 0 ? a.ring_fd : -1, err.text);
    return r == 0 ? 0 : 1;
}
