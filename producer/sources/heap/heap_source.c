// SPDX-License-Identifier: Apache-2.0
//
// The loop looks at the rings: ten times a second while little happens, more often the fuller they
// are found, so a client never has to make a system call to be heard. A program that ended is read
// to its end and kept until the recording stops: its profile is in every dump.
//
// Nothing that a client does can end the recording. A ring that makes no sense ends that client's
// profile (buffer_corrupted); a program that calls again (it has executed another one) has a new
// profile.
#include "producer/sources/heap/heap_source.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/heap/heap_book.h"
#include "producer/sources/heap/heap_names.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_targets.h"
#include "producer/sources/heap/profile_writer.h"
#include "producer/sources/proc_text.h"

#define LOOK_SLOW       (100 * NSEC_PER_MSEC)
#define LOOK_FAST       (5 * NSEC_PER_MSEC)
#define RECORDS_A_LOOK  (1u << 18)
#define GUARDRAIL_EVERY NSEC_PER_SEC
#define CLIENTS_MAX     4096
#define CMDLINE_MAX     4096
#define TARGETS_EVERY   (500 * NSEC_PER_MSEC)
#define ATTACHES_MAX    4                    // at a time
#define LEAVE_TIME      (50 * NSEC_PER_MSEC) // for processes to take their hooks out themselves

struct heap_client {
    int32_t pid;
    int pidfd; // owned; -1: it has ended, or the kernel has no such thing
    struct ring_reader ring;
    struct heap_book book;
    nsec_t start_coarse;
    uint64_t n_samples;
    bool from_startup;
    bool ended;        // nothing more comes
    bool disconnected; // it ended before the recording did
    pid_t helper;      // that takes the hooks out
    bool rejected;     // somebody else profiles it; there is no ring
};

VEC_DEFINE(heap_client_vec, struct heap_client *);
VEC_DEFINE(heap_attach_vec, struct heap_attach *);

struct heap_source {
    struct source source;
    struct source_env env;
    struct heap_settings settings;
    struct profile_writer profile;
    struct heap_names names;
    struct heap_client_vec clients; // owned
    struct heap_targets targets;
    struct heap_attach_vec attaches; // owned; those that are under way
    int socket_fd;                   // owned; -1: nobody can come
    struct loop_io *socket_io;
    struct loop_timer *look_timer, *dump_timer, *target_timer;
    nsec_t look_period, guardrail_due, cpu_start;
    bool hit_guardrail, loss_logged;
    bool passing_over; // what runs already is not wanted
    uint64_t n_samples, n_lost;
};

static struct heap_source *of_source(struct source *source)
{
    return (struct heap_source *)source;
}

// Clients.

static struct heap_client *client_free(struct heap_client *client)
{
    if (!client)
        return NULL;
    close_fd(client->pidfd);
    ring_reader_done(&client->ring);
    heap_book_done(&client->book);
    free(client);
    return NULL;
}

// `ring_fd` (owned): the memory is there already; -1: it is made.
static int client_new(struct heap_source *heap, int32_t pid, int ring_fd, struct heap_client **ret,
                      struct err *err)
{
    struct heap_client *client = heap->clients.n < CLIENTS_MAX ? calloc(1, sizeof(*client)) : NULL;
    if (!client) {
        close_fd(ring_fd);
        return err_set(err, -ENOMEM, "no memory, or more than %d processes", CLIENTS_MAX);
    }
    *client = (struct heap_client){
        .pid = pid,
        .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
        .start_coarse = nsec_now(CLOCK_MONOTONIC_COARSE),
        .from_startup = ring_fd < 0,
    };
    const struct ring_options *options = &heap->settings.ring;
    int r = ring_fd < 0 ? ring_reader_new(options, &client->ring, err)
                        : ring_reader_over(ring_fd, options, &client->ring, err);
    if (r == 0)
        r = heap_client_vec_push(&heap->clients, client);
    if (r < 0) {
        client_free(client);
        return r;
    }
    *ret = client;
    return 0;
}

static bool has_exited(const struct heap_client *client)
{
    struct pollfd poll_fd = {.fd = client->pidfd, .events = POLLIN};
    if (client->pidfd < 0)
        return kill(client->pid, 0) < 0 && errno == ESRCH;
    return poll(&poll_fd, 1, 0) == 1;
}

static void drain(struct heap_source *heap, struct heap_client *client, bool is_last)
{
    struct ring_record record;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    for (uint32_t n = 0;
         (is_last || n < RECORDS_A_LOOK) && ring_reader_next(&client->ring, now, is_last, &record);
         n++) {
        if (heap_book_add(&client->book, &record) < 0) {
            heap->n_lost++;
            continue;
        }
        client->n_samples += record.kind == HEAP_ALLOC;
        heap->n_samples += record.kind == HEAP_ALLOC;
    }
}

// Of a process that lives, what its threads are just writing is left to them.
static void end_client(struct heap_source *heap, struct heap_client *client, bool disconnected)
{
    ring_reader_stop(&client->ring);
    drain(heap, client, has_exited(client));
    ring_reader_release(&client->ring);
    client->pidfd = close_fd(client->pidfd);
    client->ended = true;
    client->disconnected = disconnected;
}

static void look_at_client(struct heap_source *heap, struct heap_client *client)
{
    bool exited = has_exited(client);
    ring_reader_beat(&client->ring);
    drain(heap, client, false);
    if (exited || client->ring.corrupted || atomic_load(&client->ring.header->gone) != 0)
        end_client(heap, client, true);
}

static uint64_t lost_of(const struct heap_client *client)
{
    const struct heap_header *header = client->ring.header;
    if (client->rejected)
        return 0;
    return atomic_load(&header->n_lost_allocs) + atomic_load(&header->n_lost_frees) +
           client->ring.n_skipped + client->book.n_dropped;
}

static void log_loss(struct heap_source *heap, const struct heap_client *client)
{
    if (heap->loss_logged || lost_of(client) == 0)
        return;
    log_warning(heap->env.log,
                "linux.heap: process %d: its buffer was full: %llu samples are lost (enlarge "
                "shmem_size_bytes, or set block_client)",
                client->pid, (unsigned long long)lost_of(client));
    heap->loss_logged = true;
}

// Guardrails.

static uint64_t own_memory_kb(void)
{
    char text[256];
    ssize_t n = text_file_read_once(text, sizeof(text), "/proc", "/self/statm");
    struct span rest = span_over(text, n > 0 ? (size_t)n : 0);
    uint64_t size = 0, resident = 0, shared = 0;
    if (!span_take_u64(&rest, &size) || !span_take_u64(&rest, &resident) ||
        !span_take_u64(&rest, &shared) || resident < shared)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static bool is_over_limit(const struct heap_source *heap)
{
    nsec_t cpu = nsec_now(CLOCK_PROCESS_CPUTIME_ID) - heap->cpu_start;
    const struct heap_settings *settings = &heap->settings;
    return (settings->max_memory_kb && own_memory_kb() > settings->max_memory_kb) ||
           (settings->max_cpu_secs &&
            cpu / NSEC_PER_SEC >= (nsec_t)(settings->max_cpu_secs & INT32_MAX));
}

static void check_guardrails(struct heap_source *heap, nsec_t now)
{
    if (heap->hit_guardrail || now < heap->guardrail_due)
        return;
    heap->guardrail_due = now + GUARDRAIL_EVERY;
    if (!is_over_limit(heap))
        return;
    heap->hit_guardrail = true;
    log_warning(heap->env.log, "linux.heap: the recorder needs more than max_heapprofd_memory_kb "
                               "or max_heapprofd_cpu_secs allow: the profile ends");
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            end_client(heap, *client, false);
}

// Looks and dumps.

static nsec_t period_for(const struct heap_source *heap)
{
    uint64_t fullest = 0;
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended && ring_reader_used(&(*client)->ring) > fullest)
            fullest = ring_reader_used(&(*client)->ring);
    if (fullest >= heap->settings.ring.bytes / 16)
        return LOOK_FAST;
    nsec_t slower = heap->look_period * 2;
    return slower < LOOK_SLOW ? slower : LOOK_SLOW;
}

static void look(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_source *heap = userdata;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    (void)due;
    (void)n_due;
    heap->look_period = period_for(heap); // before the rings are emptied
    vec_foreach(&heap->clients, client) {
        if ((*client)->ended)
            continue;
        look_at_client(heap, *client);
        log_loss(heap, *client);
    }
    check_guardrails(heap, now);
    loop_set_timer(heap->look_timer, now + heap->look_period, 0);
}

static const char *name_of(void *userdata, const struct profile_process *process,
                           const struct book_mapping *mapping, uint64_t rel_pc)
{
    struct heap_source *heap = userdata;
    const struct strset *texts = &process->book->texts;
    const char *path = strset_text(texts, mapping->path);
    const struct strset_entry *id = &texts->entries[mapping->build_id];
    if (heap_settings_skip_names(&heap->settings, path))
        return NULL;
    return heap_names_find(&heap->names, heap->env.roots->proc, process->pid, path, id->text,
                           id->size, rel_pc);
}

static struct profile_process process_of(const struct heap_source *heap, struct heap_client *client)
{
    struct heap_header *header = client->ring.header;
    if (client->rejected)
        return (struct profile_process){
            .book = &client->book,
            .pid = client->pid,
            .interval_bytes = heap->settings.ring.interval_bytes,
            .rejected_concurrent = true,
            .start_coarse = client->start_coarse,
        };
    return (struct profile_process){
        .book = &client->book,
        .pid = client->pid,
        .interval_bytes = atomic_load(&header->interval_bytes),
        .orig_interval_bytes =
            heap->settings.ring.adaptive_free_bytes ? heap->settings.ring.interval_bytes : 0,
        .from_startup = client->from_startup,
        .disconnected = client->disconnected,
        .buffer_overran = lost_of(client) > 0,
        .buffer_corrupted = client->ring.corrupted,
        .hit_guardrail = heap->hit_guardrail,
        .hit_timeout = atomic_load(&header->hit_timeout) != 0,
        .n_samples = client->n_samples,
        .n_unwind_errors = atomic_load(&header->n_unwind_errors),
        .unwind_us = atomic_load(&header->unwind_ns) / 1000,
        .blocked_us = atomic_load(&header->blocked_us),
        .unwind_buckets = (const uint32_t *)header->unwind_buckets,
        .start_coarse = client->start_coarse,
    };
}

static void dump_all(struct heap_source *heap)
{
    size_t n = 0;
    struct profile_process *processes = calloc(heap->clients.n + 1, sizeof(*processes));
    if (!processes) {
        heap->n_lost++;
        return;
    }
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended)
            look_at_client(heap, *client);
        processes[n++] = process_of(heap, *client);
    }
    if (n > 0 && !profile_write(&heap->profile, processes, n))
        heap->n_lost++;
    free(processes);
}

static void dump_due(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    dump_all(userdata);
}

// Programs that come.

static bool is_wanted(struct heap_source *heap, int32_t pid)
{
    char text[CMDLINE_MAX];
    ssize_t n =
        text_file_read_once(text, sizeof(text) - 1, heap->env.roots->proc, "/%d/cmdline", pid);
    text[n > 0 ? n : 0] = 0;
    return heap->settings.startup && !heap->hit_guardrail &&
           heap_settings_match(&heap->settings, pid, text);
}

static int send_ring(int fd, int ring_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &ring_fd, sizeof(ring_fd));
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

// The same process with another program: what was before has ended.
static void end_former(struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && !(*client)->ended)
            end_client(heap, *client, true);
}

static void welcome(struct heap_source *heap, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    struct heap_client *client = NULL;
    struct err err = {0};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0 ||
        (peer.uid != getuid() && getuid() != 0) || !is_wanted(heap, peer.pid))
        return;
    end_former(heap, peer.pid);
    int r = client_new(heap, peer.pid, -1, &client, &err);
    if (r == 0)
        r = send_ring(fd, client->ring.fd);
    if (r < 0) {
        log_warning(heap->env.log, "linux.heap: process %d: %s", peer.pid,
                    err.text[0] ? err.text : strerror(-r));
        return;
    }
    if (heap->env.pids)
        pid_feed_publish(heap->env.pids, peer.pid);
}

static void socket_ready(void *userdata, uint32_t events)
{
    struct heap_source *heap = userdata;
    (void)events;
    for (int fd; (fd = accept4(heap->socket_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        welcome(heap, fd);
        close_fd(fd);
    }
}

static int open_socket(struct heap_source *heap, const char *name, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(name);
    if (size == 0 || size >= sizeof(address.sun_path))
        return err_set(err, -EINVAL, "socket \"%s\": not a name", name);
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = 0;
    heap->socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (heap->socket_fd < 0 ||
        bind(heap->socket_fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) < 0 ||
        listen(heap->socket_fd, SOMAXCONN) < 0)
        return err_errno(err, -errno, "socket \"%s\"", name);
    return 0;
}

// Processes that run already.

static void note_rejected(struct heap_source *heap, int32_t pid)
{
    struct heap_client *client = calloc(1, sizeof(*client));
    if (!client)
        return;
    *client = (struct heap_client){
        .pid = pid,
        .pidfd = -1,
        .ring = {.fd = -1},
        .start_coarse = nsec_now(CLOCK_MONOTONIC_COARSE),
        .ended = true,
        .rejected = true,
    };
    if (heap_client_vec_push(&heap->clients, client) < 0)
        client_free(client);
}

static void attach_done(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                        int ring_fd, const char *text)
{
    struct heap_source *heap = userdata;
    struct heap_client *client = NULL;
    struct err err = {0};
    for (size_t i = 0; i < heap->attaches.n; i++)
        if (heap->attaches.items[i] == attach)
            heap->attaches.items[i--] = heap->attaches.items[--heap->attaches.n];
    nsec_t stopped = heap_attach_stopped(attach);
    heap_attach_free(attach);
    if (result == 0) {
        result = client_new(heap, pid, ring_fd, &client, &err);
        text = err.text;
    }
    if (result == -EBUSY)
        note_rejected(heap, pid);
    if (result < 0)
        log_warning(heap->env.log, "linux.heap: process %d is not profiled: %s", pid,
                    text[0] ? text : strerror(-result));
    if (result < 0)
        return;
    log_info(heap->env.log, "linux.heap: process %d: attached, one thread stood still for %lld us",
             pid, (long long)(stopped / NSEC_PER_USEC));
    if (heap->env.pids)
        pid_feed_publish(heap->env.pids, pid);
}

static bool is_known(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && !(*client)->ended)
            return true;
    return false;
}

static bool target_found(void *userdata, int32_t pid)
{
    struct heap_source *heap = userdata;
    struct heap_attach *attach;
    struct err err = {0};
    if (heap->passing_over || is_known(heap, pid))
        return true;
    if (heap->attaches.n >= ATTACHES_MAX)
        return false;
    int r = heap_attach_vec_reserve(&heap->attaches, heap->attaches.n + 1);
    if (r == 0)
        r = heap_attach_begin(heap->env.loop, &heap->settings.ring, pid, attach_done, heap, &attach,
                              &err);
    if (r == 0)
        heap_attach_vec_push(&heap->attaches, attach);
    else
        log_warning(heap->env.log, "linux.heap: process %d is not profiled: %s", pid,
                    err.text[0] ? err.text : strerror(-r));
    return true;
}

static void look_for_targets(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_source *heap = userdata;
    (void)due;
    (void)n_due;
    if (!heap->hit_guardrail)
        heap_targets_look(&heap->targets, &heap->settings, heap->env.roots->proc, target_found,
                          heap);
    heap->passing_over = false;
    // Those that start later are found a little later. Where they are not wanted one look is all.
    if (!heap->settings.startup && heap->attaches.n < ATTACHES_MAX)
        loop_set_timer(heap->target_timer, NSEC_MAX, 0);
}

static bool has_left(const struct heap_client *client)
{
    return client->rejected || client->from_startup || client->disconnected ||
           atomic_load(&client->ring.header->gone) != 0;
}

// Processes that allocate take their hooks out by themselves; what is left is done for them.
static void leave_processes(struct heap_source *heap)
{
    bool all_left = true;
    vec_foreach(&heap->clients, client)
        all_left &= has_left(*client);
    if (!all_left)
        nanosleep(&(struct timespec){.tv_nsec = LEAVE_TIME}, NULL);
    vec_foreach(&heap->clients, client)
        (*client)->helper = has_left(*client) ? 0 : heap_attach_detach((*client)->pid);
    vec_foreach(&heap->clients, client)
        heap_attach_wait((*client)->helper);
}

// The source.

static struct source *heap_close(struct source *source)
{
    struct heap_source *heap = of_source(source);
    if (!heap)
        return NULL;
    heap->socket_io = loop_remove_io(heap->socket_io);
    heap->look_timer = loop_remove_timer(heap->look_timer);
    heap->dump_timer = loop_remove_timer(heap->dump_timer);
    heap->target_timer = loop_remove_timer(heap->target_timer);
    while (heap->attaches.n > 0)
        heap_attach_finish(heap->attaches.items[0]);
    heap_attach_vec_done(&heap->attaches);
    heap_targets_done(&heap->targets);
    close_fd(heap->socket_fd);
    vec_foreach(&heap->clients, client)
        client_free(*client);
    heap_client_vec_done(&heap->clients);
    heap_names_done(&heap->names);
    free(heap);
    return NULL;
}

static int heap_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    struct heap_settings settings;
    int r = heap_settings_read(config, &settings, err);
    if (r < 0)
        return r;
    struct heap_source *heap = calloc(1, sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    heap->source.class = &heap_source_class;
    heap->env = *env;
    heap->settings = settings;
    heap->socket_fd = -1;
    heap->profile = (struct profile_writer){
        .writer = env->writer,
        .dump_at_max = settings.dump_at_max,
        .name = name_of,
        .userdata = heap,
    };
    if (env->roots->heap_socket && settings.startup)
        r = open_socket(heap, env->roots->heap_socket, err);
    if (r < 0) {
        heap_close(&heap->source);
        return r;
    }
    *ret = &heap->source;
    return 0;
}

static int heap_start(struct source *source, struct err *err)
{
    struct heap_source *heap = of_source(source);
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    heap->cpu_start = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    heap->look_period = LOOK_FAST;
    int r = loop_add_timer(heap->env.loop, now + LOOK_FAST, 0, look, heap, &heap->look_timer);
    if (r == 0 && heap->settings.dump_interval)
        r = loop_add_timer(heap->env.loop,
                           now + (heap->settings.dump_phase ? heap->settings.dump_phase
                                                            : heap->settings.dump_interval),
                           heap->settings.dump_interval, dump_due, heap, &heap->dump_timer);
    if (r == 0 && heap->socket_fd >= 0)
        r = loop_add_io(heap->env.loop, heap->socket_fd, EPOLLIN, socket_ready, heap,
                        &heap->socket_io);
    // A program that is started for the profile comes by itself.
    heap->passing_over = !heap->settings.running;
    if (r == 0 && (heap->settings.running || heap->socket_fd < 0))
        r = loop_add_timer(heap->env.loop, now, TARGETS_EVERY, look_for_targets, heap,
                           &heap->target_timer);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static void heap_flush(struct source *source)
{
    struct heap_source *heap = of_source(source);
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            look_at_client(heap, *client);
}

static void heap_stop(struct source *source)
{
    struct heap_source *heap = of_source(source);
    heap->socket_io = loop_remove_io(heap->socket_io);
    heap->look_timer = loop_remove_timer(heap->look_timer);
    heap->dump_timer = loop_remove_timer(heap->dump_timer);
    heap->target_timer = loop_remove_timer(heap->target_timer);
    while (heap->attaches.n > 0)
        heap_attach_finish(heap->attaches.items[0]);
    vec_foreach(&heap->clients, client) {
        if (!(*client)->ended)
            end_client(heap, *client, has_exited(*client));
        log_loss(heap, *client);
    }
    dump_all(heap);
    leave_processes(heap);
}

static void heap_counts(const struct source *source, struct source_counts *ret)
{
    const struct heap_source *heap = (const struct heap_source *)source;
    ret->events = heap->n_samples;
    ret->events_lost = heap->n_lost;
    vec_foreach(&heap->clients, client)
        ret->events_lost += lost_of(*client);
}

const struct source_class heap_source_class = {
    .name = "android.heapprofd",
    .aliases = (const char *const[]){"linux.heap", NULL},
    .summary = "sampled call stacks of what native programs allocate",
    .open = heap_open,
    .start = heap_start,
    .flush = heap_flush,
    .stop = heap_stop,
    .close = heap_close,
    .counts = heap_counts,
};
