// SPDX-License-Identifier: Apache-2.0
//
// A hostile program of a user without rights, for tests of root's recorders. The program says
// "ready" when its trap is set, then a line for each thing that it has seen, and stays until it is
// ended. "cannot: ..." says that this machine does not allow the attempt.
//
//     stranger deaf FOLDER MOUNTED PREFIX [COMMAND...]
//         enters its own namespaces. MOUNTED is an overlay over a FUSE file system, which never
//         answers a look-up of a name that begins with PREFIX. FOLDER is an empty folder of the
//         user, with a device "fuse" beside it. COMMAND runs in the namespaces.
//     stranger slow FOLDER MOUNTED PREFIX [COMMAND...]
//         as `deaf`, but answers such a look-up after a while: a file has the name
//     stranger map FOLDER
//         mounts like `deaf`, and maps a file of the FUSE file system through the overlay. From
//         then on the file system does not answer anything.
//     stranger lend FOLDER
//         as `map`, but another process maps the file, which has the mounts that root made, and
//         gets the file through a socket. Its pid follows "ready".
//     stranger swap SOCKET
//         waits to be woken as a dormant program. When a summons appears in its /tmp, the program
//         mounts SOCKET, a socket of root's, over the name of the summons at once.
//     stranger crowd SOCKET N
//         N processes ask for a profile each and stay; "ready: M" of them have got one
//     stranger client SOCKET SCRIPT...
//         asks for a profile and writes records as the SCRIPT says (see run_script())
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "producer/heap/heap_abi.h"

#define LIFE_S 120 // the kernel ends this program then, whatever the test does

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void cannot(const char *what)
{
    say("cannot: %s: %s", what, strerror(errno));
    exit(0);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        cannot(path);
    close(fd);
}

static void enter_namespaces(void)
{
    char text[64];
    uid_t uid = getuid();
    gid_t gid = getgid();
    prctl(PR_SET_DUMPABLE, 1);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        cannot("namespaces");
    write_text("/proc/self/setgroups", "deny");
    snprintf(text, sizeof(text), "%u %u 1", uid, uid);
    write_text("/proc/self/uid_map", text);
    snprintf(text, sizeof(text), "%u %u 1", gid, gid);
    write_text("/proc/self/gid_map", text);
}

// The file system that does not answer.

static int fuse_fd;
static const char *deaf_prefix, *file_name = "";
static bool is_all_deaf, is_slow;

#define FILE_NODE 2
#define SLOW      (&(struct timespec){.tv_nsec = 400000000})

static void answer(const struct fuse_in_header *in, int error, const void *body, size_t size)
{
    uint8_t out[512];
    struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + (error ? 0 : size)),
                                   .error = -error,
                                   .unique = in->unique};
    memcpy(out, &head, sizeof(head));
    memcpy(out + sizeof(head), body, error ? 0 : size);
    if (write(fuse_fd, out, head.len) < 0 && errno != ENOENT)
        say("cannot: answer %u: %s", in->opcode, strerror(errno));
}

static struct fuse_attr attr_of(uint64_t node)
{
    struct fuse_attr attr = {.ino = node, .mode = S_IFDIR | 0777, .nlink = 2};
    if (node == FILE_NODE)
        attr = (struct fuse_attr){.ino = node, .mode = S_IFREG | 0777, .nlink = 1, .size = 4096};
    if (is_slow) // a file that grows
        attr.mtime = (uint64_t)time(NULL) + 5;
    attr.uid = getuid();
    attr.gid = getgid();
    return attr;
}

static void serve_one(const struct fuse_in_header *in)
{
    const char *body = (const char *)(in + 1);
    if (is_all_deaf && in->opcode != FUSE_FORGET && in->opcode != FUSE_INTERRUPT &&
        in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_RELEASE) {
        say("asked for %u", in->opcode);
        return;
    }
    switch (in->opcode) {
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 2};
        answer(in, 0, &out, sizeof(out));
        return;
    }
    case FUSE_READ: {
        static const char page[400];
        answer(in, 0, page, sizeof(page));
        return;
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        answer(in, 0, "", 0);
        return;
    case FUSE_INIT: {
        struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 65536};
        answer(in, 0, &init, sizeof(init));
        return;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = in->nodeid == FILE_NODE ? 0 : 3600};
        out.attr = attr_of(in->nodeid);
        answer(in, 0, &out, sizeof(out));
        return;
    }
    case FUSE_LOOKUP: {
        bool is_deaf = strncmp(body, deaf_prefix, strlen(deaf_prefix)) == 0;
        if (is_deaf)
            say("asked for %s", body);
        if (is_deaf && is_slow)
            nanosleep(SLOW, NULL);
        if (strcmp(body, file_name) == 0 || (is_deaf && is_slow)) {
            struct fuse_entry_out out = {.nodeid = FILE_NODE, .attr = attr_of(FILE_NODE)};
            answer(in, 0, &out, sizeof(out));
        } else if (!is_deaf) {
            answer(in, ENOENT, "", 0);
        }
        return;
    }
    case FUSE_OPENDIR: {
        struct fuse_open_out out = {.fh = 1};
        answer(in, 0, &out, sizeof(out));
        return;
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.namelen = 255, .bsize = 4096}};
        answer(in, 0, &out, sizeof(out));
        return;
    }
    case FUSE_READDIR:
    case FUSE_RELEASEDIR:
        answer(in, 0, "", 0);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        answer(in, ENOSYS, "", 0);
    }
}

static void *serve(void *unused)
{
    static _Alignas(8) uint8_t request[1 << 18];
    (void)unused;
    for (ssize_t n; (n = read(fuse_fd, request, sizeof(request) - 1)) >= 0 || errno == EINTR ||
                    errno == EAGAIN || errno == ENOENT;) {
        if (n >= (ssize_t)sizeof(struct fuse_in_header)) {
            request[n] = 0;
            serve_one((const struct fuse_in_header *)request);
        }
    }
    return NULL;
}

static void mount_deaf(const char *folder, const char *mounted)
{
    char path[512], options[2048];
    pthread_t thread;
    snprintf(path, sizeof(path), "%s/../fuse", folder);
    fuse_fd = open(path, O_RDWR | O_CLOEXEC);
    if (fuse_fd < 0)
        cannot("the device of FUSE");
    if (mount("stranger", folder, "tmpfs", 0, "mode=777") < 0)
        cannot("tmpfs");
    static const char *const names[] = {"lower", "upper", "work"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        mkdir(path, 0777);
    }
    snprintf(path, sizeof(path), "%s/lower", folder);
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse_fd,
             getuid(), getgid());
    if (mount("stranger", path, "fuse", 0, options) < 0)
        cannot("FUSE");
    pthread_create(&thread, NULL, serve, NULL);
    snprintf(options, sizeof(options),
             "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work,userxattr", folder, folder,
             folder);
    if (mount("stranger", mounted, "overlay", 0, options) < 0)
        cannot("overlay over FUSE");
}

static void stay(void)
{
    for (;;)
        pause();
}

static void deaf(char **argv, int n)
{
    enter_namespaces();
    deaf_prefix = argv[2];
    mount_deaf(argv[0], argv[1]);
    if (n > 3 && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fuse_fd);
        execv(argv[3], argv + 3);
        _exit(1);
    }
    say("ready");
    stay();
}

// Mounts a file system and opens a file of it, which answers until is_all_deaf is set.
static int open_mounted(const char *folder)
{
    char path[512];
    enter_namespaces();
    deaf_prefix = "/";
    file_name = "file";
    mount_deaf(folder, "/tmp");
    snprintf(path, sizeof(path), "/tmp/%s", file_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        cannot("open of a file of FUSE");
    return fd;
}

// Closes the file: a close() of a deaf file would wait.
static void map_file(int fd)
{
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        cannot("map of a file of FUSE");
    close(fd);
}

static void map(char **argv)
{
    map_file(open_mounted(argv[0]));
    is_all_deaf = true;
    say("ready");
    stay();
}

union fd_message {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void fd_send(int socket_fd, int fd)
{
    char byte = 0;
    union fd_message control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                         .cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    if (sendmsg(socket_fd, &message, 0) < 0)
        cannot("send the file");
}

// Returns -1 if no descriptor comes.
static int fd_receive(int socket_fd)
{
    char byte;
    int fd = -1;
    union fd_message control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    return fd;
}

static void lend(char **argv)
{
    int ends[2];
    char byte = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        cannot("socketpair");
    pid_t borrower = fork();
    if (borrower == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        map_file(fd_receive(ends[1]));
        (void)!write(ends[1], &byte, 1);
        stay();
    }
    int fd = open_mounted(argv[0]);
    fd_send(ends[0], fd);
    if (read(ends[0], &byte, 1) != 1)
        cannot("lend the file");
    close(fd);
    is_all_deaf = true;
    say("ready %d", (int)borrower);
    stay();
}

// The swap. The program learns the name when the file appears, and must mount before the recorder
// looks the name up again.

static void woken(int number)
{
    (void)number;
}

static void look_dormant(void)
{
    char name[64];
    snprintf(name, sizeof(name), HEAP_DORMANT_FORMAT, HEAP_SIGNAL_DEFAULT, HEAP_ABI_VERSION);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096) < 0 ||
        mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        cannot("memfd");
    sigaction(HEAP_SIGNAL_DEFAULT, &(struct sigaction){.sa_handler = woken, .sa_flags = SA_RESTART},
              NULL);
}

#define WATCHES 120

// Makes many watches of /tmp. The kernel notifies all watches before the creator of a file goes on.
// The first watch wakes this program during this time, when the file is there already.
static int watch_tmp(void)
{
    int all = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < WATCHES; i++) {
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd < 0)
            break;
        inotify_add_watch(fd, "/tmp", IN_CREATE);
        epoll_ctl(all, EPOLL_CTL_ADD, fd, &event);
    }
    return all;
}

static bool find_summons(int all, char path[300])
{
    struct epoll_event event;
    char bytes[4096];
    if (epoll_wait(all, &event, 1, 0) != 1)
        return false;
    ssize_t n = read(event.data.fd, bytes, sizeof(bytes));
    for (ssize_t at = 0; at < n;) {
        struct inotify_event *made = (struct inotify_event *)(bytes + at);
        at += (ssize_t)(sizeof(*made) + made->len);
        if (strncmp(made->name, HEAP_SUMMONS_PREFIX, strlen(HEAP_SUMMONS_PREFIX)) == 0) {
            snprintf(path, 300, "/tmp/%s", made->name);
            return true;
        }
    }
    return false;
}

static void swap(char **argv)
{
    char path[300], last[300] = "", over[512];
    struct stat before, now;
    enter_namespaces();
    int socket_fd = open(argv[0], O_PATH | O_CLOEXEC);
    if (socket_fd < 0 || fstat(socket_fd, &before) < 0)
        cannot(argv[0]);
    snprintf(over, sizeof(over), "/proc/self/fd/%d", socket_fd);
    look_dormant();
    int all = watch_tmp();
    say("ready");
    for (;;) {
        if (!find_summons(all, path) || strcmp(path, last) == 0)
            continue;
        strcpy(last, path);
        bool swapped = mount(over, path, NULL, MS_BIND, NULL) == 0;
        usleep(20000);
        if (fstat(socket_fd, &now) == 0 &&
            (now.st_uid != before.st_uid || now.st_mode != before.st_mode))
            say("mine: uid %u mode %o", now.st_uid, now.st_mode & 07777);
        else
            say("%s", swapped ? "swapped" : "too late");
        umount2(path, MNT_DETACH);
    }
}

// A client of the heap's socket.

struct ring {
    struct heap_header *header;
    uint8_t *memory;
    uint64_t bytes, pos;
};

static int ask_for_ring(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    int ring = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd_receive(fd) : -1;
    close(fd);
    return ring;
}

static bool ring_open(struct ring *ring, int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    void *memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    close(fd);
    ring->header = memory;
    ring->memory = (uint8_t *)memory + HEAP_HEADER_BYTES;
    ring->bytes = ring->header->ring_bytes;
    return true;
}

// Returns room for a record, which ring_done() completes. Waits until the reader has made room.
static void *ring_room(struct ring *ring, size_t size)
{
    uint64_t at = ring->pos & (ring->bytes - 1);
    if (ring->bytes - at < size) {
        while (ring->pos + ring->bytes - at - atomic_load(&ring->header->read_pos) > ring->bytes)
            usleep(100);
        struct heap_record *pad = (struct heap_record *)(ring->memory + at);
        pad->kind = HEAP_PAD;
        atomic_store(&pad->word, (uint32_t)(ring->bytes - at) | HEAP_RECORD_DONE);
        ring->pos += ring->bytes - at;
        atomic_store(&ring->header->write_pos, ring->pos);
    }
    while (ring->pos + size - atomic_load(&ring->header->read_pos) > ring->bytes)
        usleep(100);
    return ring->memory + (ring->pos & (ring->bytes - 1));
}

static void ring_done(struct ring *ring, struct heap_record *record, size_t size)
{
    atomic_store(&record->word, (uint32_t)size | HEAP_RECORD_DONE);
    ring->pos += size;
    atomic_store(&ring->header->write_pos, ring->pos);
}

static void put_object(struct ring *ring, uint64_t start, uint64_t end, const char *path)
{
    size_t size = (sizeof(struct heap_object) + strlen(path) + 7) & ~(size_t)7;
    struct heap_object *object = ring_room(ring, size);
    object->head.kind = HEAP_OBJECT;
    object->start = start;
    object->end = end;
    object->file_offset = object->load_bias = 0;
    object->id_size = 0;
    object->path_size = (uint32_t)strlen(path);
    memcpy(object + 1, path, strlen(path));
    ring_done(ring, &object->head, size);
}

static void put_alloc(struct ring *ring, uint64_t address, uint64_t pc)
{
    size_t size = sizeof(struct heap_alloc) + sizeof(uint64_t);
    struct heap_alloc *alloc = ring_room(ring, size);
    alloc->head.kind = HEAP_ALLOC;
    alloc->head.heap = 0;
    alloc->head.n_frames = 1;
    alloc->address = address;
    alloc->weight = 4096;
    alloc->frames[0] = pc + 1;
    ring_done(ring, &alloc->head, size);
}

#define OBJECT_BYTES UINT64_C(0x100000)

// Writes the records of a script:
// spell N PATH:    N samples in code of one file, each with a longer name: /./././PATH
// name N PATH...:  N samples, at 16-byte steps, in code of each of these files
// at HEX PATH:     a sample at offset HEX of a file
// map N M:         N mappings of files that do not exist, then M samples in the first mapping
static void run_script(struct ring *ring, char **argv, int n)
{
    uint64_t start = OBJECT_BYTES, address = 16;
    long count = strtol(argv[1], NULL, 10);
    if (strcmp(argv[0], "spell") == 0) {
        char path[HEAP_PATH_MAX];
        for (long i = 0; i < count; i++, start += OBJECT_BYTES) {
            size_t at = 0;
            for (long k = 0; k < i; k++)
                at += (size_t)snprintf(path + at, sizeof(path) - at, "/.");
            snprintf(path + at, sizeof(path) - at, "%s", argv[2]);
            put_object(ring, start, start + OBJECT_BYTES, path);
            put_alloc(ring, address += 16, start + 64);
        }
    } else if (strcmp(argv[0], "name") == 0) {
        for (int file = 2; file < n; file++, start += OBJECT_BYTES) {
            put_object(ring, start, start + OBJECT_BYTES, argv[file]);
            for (long i = 0; i < count; i++)
                put_alloc(ring, address += 16, start + (uint64_t)i * 16);
        }
    } else if (strcmp(argv[0], "at") == 0) {
        put_object(ring, start, start + OBJECT_BYTES, argv[2]);
        put_alloc(ring, address, start + strtoul(argv[1], NULL, 16));
    } else if (strcmp(argv[0], "map") == 0) {
        for (long i = 0; i < count; i++)
            put_object(ring, start + (uint64_t)i * 4096, start + (uint64_t)i * 4096 + 4096,
                       "/none");
        for (long i = 0; i < strtol(argv[2], NULL, 10); i++)
            put_alloc(ring, address += 16, start + (uint64_t)(i % 4000));
    }
}

static void client(char **argv, int n)
{
    struct ring ring = {0};
    for (int tries = 0; !ring_open(&ring, ask_for_ring(argv[0])); tries++) {
        if (tries == 600) {
            say("no ring");
            return;
        }
        usleep(50000);
    }
    run_script(&ring, argv + 1, n - 1);
    say("ready");
    while (atomic_load(&ring.header->read_pos) < ring.pos)
        usleep(1000);
    say("read");
    stay();
}

// Starts many processes, which ask for a profile each, and stay.
static void crowd(const char *socket_name, long n)
{
    long n_got = 0;
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0)
        cannot("pipe");
    for (long i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            cannot("fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int fd = ask_for_ring(socket_name);
            if (write(pipe_fds[1], fd >= 0 ? "1" : "0", 1) == 1)
                stay();
            _exit(1);
        }
    }
    for (long i = 0; i < n; i++) {
        char byte;
        if (read(pipe_fds[0], &byte, 1) == 1)
            n_got += byte == '1';
    }
    say("ready: %ld", n_got);
    stay();
}

int main(int argc, char **argv)
{
    alarm(LIFE_S);
    is_slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    if (argc >= 5 && (is_slow || strcmp(argv[1], "deaf") == 0))
        deaf(argv + 2, argc - 2);
    else if (argc == 3 && strcmp(argv[1], "map") == 0)
        map(argv + 2);
    else if (argc == 3 && strcmp(argv[1], "lend") == 0)
        lend(argv + 2);
    else if (argc == 3 && strcmp(argv[1], "swap") == 0)
        swap(argv + 2);
    else if (argc >= 6 && strcmp(argv[1], "client") == 0)
        client(argv + 2, argc - 2);
    else if (argc == 4 && strcmp(argv[1], "crowd") == 0)
        crowd(argv[2], strtol(argv[3], NULL, 10));
    else
        return 2;
    return 0;
}
