// SPDX-License-Identifier: Apache-2.0
//
// A stack waits in a place of its own, with the mappings of its process: the process may have ended
// when the answer comes. The recorder sends the tables of all files of the stack first, then the
// stack. The helper reads the tables with the rights of the process, and gives copies, which the
// recorder passes on and does not read. At most two stacks are on their way at a time, so that the
// socket never blocks.
//
// The unwinder's answers are checked like a stranger's: it works on data of strangers. If it ends,
// a stack was the cause, because nothing else was done at the time: the user of that stack is
// blamed.
#include "producer/sources/perf/perf_unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/ground/helper_program.h"
#include "producer/ground/loop.h"
#include "producer/sources/heap/heap_library.h"
#include "producer/sources/heap/names_job.h"

#define PROGRAM     "mmunwind"
#define PLACES_MIN  16
#define PLACES_MAX  256
#define SENT_MAX    2
#define CALLS_MAX   64
#define TABLES_WAIT NSEC_PER_SEC // for the tables of a stack
#define TABLES_TIME (10 * NSEC_PER_SEC)
#define BURST       (250 * NSEC_PER_MSEC) // of CPU time
#define ANSWER_MAX  NSEC_PER_SEC
#define TABLES_EACH (UINT64_C(64) << 20) // bytes of one user's files
#define TABLES_ALL  (UINT64_C(256) << 20)
#define PAUSE_NS    1000000
#define STARTS_MAX  8
#define VDSO_PAGES  8
#define PATH_BYTES  4096

enum tables_state { TABLES_UNKNOWN, TABLES_ASKED, TABLES_SETTLED };

struct place {
    uint64_t number;
    nsec_t deadline; // for its tables
    uint64_t payer;
    size_t size;
    uint8_t message[UNWIND_MESSAGE_MAX] __attribute__((aligned(8)));
};

struct tables_call {
    struct perf_unwinder *unwinder; // borrowed; NULL: it is gone
    uint32_t file, root;            // `root`: index in perf_code.roots
    uint64_t root_number;
    bool is_hold;
};

struct perf_unwinder {
    struct perf_unwinder_env env;
    int fd; // owned; -1: the unwinder has ended
    pid_t pid;
    struct loop_io *io;
    struct place *places; // owned
    size_t n_places;
    uint64_t first, unsent, end; // the oldest stack, the first unsent stack, the next new stack
    uint8_t *states;             // owned; of files
    size_t n_states;
    struct tables_call *calls[CALLS_MAX];
    size_t n_calls;
    struct budget tables;
    uint64_t blamed[STARTS_MAX]; // payers
    size_t n_blamed, n_starts;
    int64_t left; // nanoseconds of CPU time
    nsec_t filled;
};

static struct place *place_of(const struct perf_unwinder *u, uint64_t at)
{
    return &u->places[at % u->n_places];
}

static int find_program(char *ret, size_t size)
{
    char library[PATH_MAX];
    int r = heap_library_find(library, sizeof(library));
    const char *slash = r == 0 ? strrchr(library, '/') : NULL;
    if (!slash)
        return -ENOENT;
    int n = snprintf(ret, size, "%.*s/" PROGRAM, (int)(slash - library), library);
    return n > 0 && (size_t)n < size && access(ret, X_OK) == 0 ? 0 : -ENOENT;
}

// Starts the unwinder without the recorder's environment.
static int spawn(int fd, pid_t *ret)
{
    char path[PATH_MAX + 16];
    static char name[] = PROGRAM;
    char *const argv[] = {name, NULL}, *const no_variables[] = {NULL};
    int r = find_program(path, sizeof(path));
    return r < 0 ? r : helper_program_start(path, argv, no_variables, fd, UNWIND_SOCKET_FD, ret);
}

static void answer_ready(void *userdata);

static int start_program(struct perf_unwinder *u)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return -errno;
    u->fd = fds[0];
    u->n_starts++;
    budget_done(&u->tables);
    budget_init(&u->tables, &(struct budget_limits){.what = "bytes of unwind tables",
                                                    .each_max = TABLES_EACH,
                                                    .all_max = TABLES_ALL});
    int flags = fcntl(fds[1], F_GETFL); // the unwinder waits for messages
    int r = fcntl(fds[1], F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : spawn(fds[1], &u->pid);
    close_fd(fds[1]);
    return r < 0 ? r : loop_add_io(u->env.loop, u->fd, EPOLLIN, answer_ready, u, &u->io);
}

int perf_unwinder_new(const struct perf_unwinder_env *env, struct perf_unwinder **ret,
                      struct err *err)
{
    struct perf_unwinder *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    u->env = *env;
    u->fd = -1;
    u->n_places = (size_t)(env->waiting_max / UNWIND_MESSAGE_MAX);
    u->n_places = u->n_places < PLACES_MIN ? PLACES_MIN : u->n_places;
    u->n_places = u->n_places > PLACES_MAX ? PLACES_MAX : u->n_places;
    u->places = calloc(u->n_places, sizeof(*u->places)); // pages that are not used take no memory
    u->left = BURST;
    u->filled = nsec_now(CLOCK_MONOTONIC);
    int r = u->places ? start_program(u) : -ENOMEM;
    if (r < 0) {
        perf_unwinder_free(u);
        return err_errno(err, r, PROGRAM);
    }
    *ret = u;
    return 0;
}

static void end_program(struct perf_unwinder *u)
{
    u->io = loop_remove_io(u->io);
    u->fd = close_fd(u->fd);
    u->first = u->unsent = u->end;
    if (u->pid > 0) {
        kill(u->pid, SIGKILL); // it owns nothing that could be left behind
        waitpid(u->pid, NULL, 0);
    }
    u->pid = 0;
}

struct perf_unwinder *perf_unwinder_free(struct perf_unwinder *u)
{
    if (!u)
        return NULL;
    end_program(u);
    for (size_t i = 0; i < u->n_calls; i++)
        u->calls[i]->unwinder = NULL;
    budget_done(&u->tables);
    free(u->places);
    free(u->states);
    free(u);
    return NULL;
}

// Tables.

static void send_tables(struct perf_unwinder *u, uint32_t file, const struct elf_unwind *tables,
                        int fd)
{
    const struct unwind_file message = {.kind = UNWIND_FILE, .file = file, .tables = *tables};
    if (u->fd >= 0)
        unix_socket_send(u->fd, &message, sizeof(message), fd, MSG_NOSIGNAL);
}

// The kernel's code in each process (vdso) has tables, too. This process has the same code.
static void send_vdso(struct perf_unwinder *u, uint32_t file)
{
    const char *image = (const char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct elf_unwind tables;
    int whole_fd CLEANUP(close_fdp) = memfd_create(PROGRAM, MFD_CLOEXEC);
    int fd CLEANUP(close_fdp) = memfd_create(PROGRAM, MFD_CLOEXEC);
    if (!image || whole_fd < 0 || fd < 0)
        return;
    for (size_t i = 0; i < VDSO_PAGES; i++)
        if (write(whole_fd, image + i * page, page) != (ssize_t)page) // -EFAULT beyond the end
            break;
    if (elf_unwind_copy(whole_fd, fd, &tables) == 0)
        send_tables(u, file, &tables, fd);
}

static void send_next(struct perf_unwinder *u);

// Takes the call out of the unwinder's list and frees it. Returns NULL if the unwinder is gone.
static struct perf_unwinder *end_call(struct tables_call *call)
{
    struct perf_unwinder *u = call->unwinder;
    for (size_t i = 0; u && i < u->n_calls; i++)
        if (u->calls[i] == call)
            u->calls[i--] = u->calls[--u->n_calls];
    free(call);
    return u;
}

static void tables_came(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct tables_call *call = userdata;
    uint32_t file = call->file, root = call->root;
    bool is_hold = call->is_hold;
    uint64_t root_number = call->root_number;
    struct perf_unwinder *u = end_call(call);
    struct elf_unwind tables;
    uint64_t number;
    if (!u) {
        close_fd(fd);
        return;
    }
    struct perf_code *code = u->env.code;
    u->states[file] = TABLES_SETTLED;
    if (is_hold && result == 0 && size == sizeof(number)) {
        memcpy(&number, answer, sizeof(number));
        code->roots.items[root].number = number;
        u->states[file] = TABLES_UNKNOWN; // now the tables can be asked for
    } else if (!is_hold && result == -ESTALE && code->roots.items[root].number == root_number) {
        code->roots.items[root].number = 0; // the number is an earlier helper's
    } else if (!is_hold && result == 0 && size == sizeof(tables) && fd >= 0) {
        memcpy(&tables, answer, sizeof(tables));
        if (budget_take(&u->tables, code->files.items[file].owner.payer, tables.size, 0, NULL) == 0)
            send_tables(u, file, &tables, fd);
    }
    close_fd(fd);
    if (result != -ECANCELED)
        send_next(u);
}

static size_t write_question(const struct code_file *file, uint64_t root, uint8_t *bytes)
{
    size_t n_path = strlen(file->path);
    const struct names_ask ask = {
        .root = root,
        .payer = file->owner.payer,
        .uid = file->owner.ids.uid,
        .gid = file->owner.ids.gid,
        .id_size = file->build_id_size,
        .path_size = (uint32_t)n_path,
        .needs_id = file->owner.is_guessed,
    };
    memcpy(bytes, &ask, sizeof(ask));
    memcpy(bytes + sizeof(ask), file->build_id, file->build_id_size);
    memcpy(bytes + sizeof(ask) + file->build_id_size, file->path, n_path);
    return sizeof(ask) + file->build_id_size + n_path;
}

// Asks the helper for the tables, or first for the root of the process.
static void ask_tables(struct perf_unwinder *u, uint32_t number)
{
    struct perf_code *code = u->env.code;
    const struct code_file *file = &code->files.items[number];
    uint8_t bytes[sizeof(struct names_ask) + ELF_BUILD_ID_MAX + PATH_BYTES];
    u->states[number] = TABLES_SETTLED;
    if (str_eq(file->path, "[vdso]"))
        send_vdso(u, number);
    if (file->path[0] != '/' || file->owner.root == 0 || !u->env.helper)
        return;
    const struct names_root *root = &code->roots.items[file->owner.root - 1];
    struct tables_call *call = u->n_calls < CALLS_MAX ? malloc(sizeof(*call)) : NULL;
    if (!call) {
        u->states[number] = TABLES_UNKNOWN; // later
        return;
    }
    *call = (struct tables_call){.unwinder = u,
                                 .file = number,
                                 .root = file->owner.root - 1,
                                 .root_number = root->number,
                                 .is_hold = root->number == 0};
    struct foreign_ask ask = {.payer = file->owner.payer, .bytes = bytes, .fd = -1};
    if (call->is_hold) {
        ask.job = FOREIGN_NAMES_HOLD;
        ask.fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 0);
    } else {
        ask.job = FOREIGN_NAMES_TABLES;
        ask.size = write_question(file, root->number, bytes);
        ask.time_max = TABLES_TIME;
    }
    if (foreign_helper_ask(u->env.helper, &ask, tables_came, call, NULL, NULL) < 0) {
        free(call);
        return;
    }
    u->calls[u->n_calls++] = call;
    u->states[number] = TABLES_ASKED;
}

// Asks for the tables that the stack may need. Returns whether all tables that can be read are
// there.
static bool has_tables(struct perf_unwinder *u, const struct unwind_sample *sample)
{
    const struct unwind_mapping *mappings = (const void *)(sample + 1);
    bool has_all = true;
    for (uint32_t i = 0; i < sample->n_mappings; i++) {
        uint32_t file = mappings[i].file;
        if (file == UNWIND_NO_FILE)
            continue;
        if (u->states[file] == TABLES_UNKNOWN)
            ask_tables(u, file);
        has_all &= u->states[file] == TABLES_SETTLED;
    }
    return has_all;
}

// Stacks.

static void send_next(struct perf_unwinder *u)
{
    while (u->fd >= 0 && u->unsent < u->end && u->unsent - u->first < SENT_MAX) {
        struct place *place = place_of(u, u->unsent);
        if (!has_tables(u, (const struct unwind_sample *)place->message) &&
            nsec_now(CLOCK_MONOTONIC) < place->deadline)
            return;
        int r = unix_socket_send(u->fd, place->message, place->size, -1, MSG_NOSIGNAL);
        if (r < 0)
            return; // full: again after the next answer; or the unwinder has ended
        u->unsent++;
    }
}

static bool is_blamed(const struct perf_unwinder *u, uint64_t payer)
{
    for (size_t i = 0; i < u->n_blamed; i++)
        if (u->blamed[i] == payer)
            return true;
    return false;
}

// Starts the unwinder again after it has ended or has given a wrong answer.
static void begin_anew(struct perf_unwinder *u)
{
    bool has_stack = u->first < u->unsent;
    uint64_t payer = has_stack ? place_of(u, u->first)->payer : 0;
    end_program(u);
    if (has_stack && !is_blamed(u, payer) && u->n_blamed < STARTS_MAX)
        u->blamed[u->n_blamed++] = payer;
    for (size_t i = 0; i < u->n_states; i++)
        u->states[i] = u->states[i] == TABLES_ASKED ? TABLES_ASKED : TABLES_UNKNOWN;
    if (u->n_starts < STARTS_MAX && start_program(u) < 0)
        end_program(u);
    if (has_stack)
        log_warning(u->env.log,
                    "linux.perf: the unwinder has failed at a stack of user %llu: that user's "
                    "stacks are followed by frame pointers from now on",
                    (unsigned long long)payer);
    else
        log_warning(u->env.log, "linux.perf: the unwinder has failed, and %s",
                    u->fd >= 0 ? "is started anew" : "is not started again");
}

static void take_answer(struct perf_unwinder *u, const struct unwind_answer *answer)
{
    const struct place *place = place_of(u, u->first++);
    const struct unwind_sample *sample = (const void *)place->message;
    const struct unwind_mapping *mappings = (const void *)(sample + 1);
    uint32_t frames[UNWIND_FRAMES_MAX];
    size_t n = 0;
    u->left -= answer->cpu_ns < (uint64_t)ANSWER_MAX ? (int64_t)answer->cpu_ns : ANSWER_MAX;
    for (; n < answer->n; n++) {
        const struct unwind_frame *frame = &answer->frames[n];
        const struct unwind_mapping *mapping =
            frame->mapping < sample->n_mappings ? &mappings[frame->mapping] : NULL;
        bool is_file = mapping && mapping->file != UNWIND_NO_FILE;
        frames[n] = perf_code_frame(u->env.code, is_file ? mapping->file : CODE_NOWHERE,
                                    is_file ? frame->address - mapping->start + mapping->offset
                                            : frame->address);
        if (frames[n] == CODE_STACK_NONE)
            break;
    }
    u->env.done(u->env.userdata, place->number, frames, n,
                answer->end <= UNWIND_TOO_LONG ? (enum unwind_end)answer->end : UNWIND_NO_TABLE);
}

// Returns false if there is no answer now.
static bool receive_answer(struct perf_unwinder *u)
{
    struct unwind_answer answer;
    int passed_fd CLEANUP(close_fdp) = -1;
    size_t head = offsetof(struct unwind_answer, frames);
    int64_t size =
        u->fd < 0 ? -EAGAIN
                  : unix_socket_receive(u->fd, &answer, sizeof(answer), MSG_DONTWAIT, &passed_fd);
    if (size == -EAGAIN || size == -EINTR)
        return false;
    bool is_right = size >= (int64_t)head && u->first < u->unsent &&
                    answer.n <= UNWIND_FRAMES_MAX &&
                    size == (int64_t)(head + answer.n * sizeof(answer.frames[0])) &&
                    answer.number == place_of(u, u->first)->number;
    if (!is_right) {
        begin_anew(u);
        return false;
    }
    take_answer(u, &answer);
    return true;
}

static void answer_ready(void *userdata)
{
    struct perf_unwinder *u = userdata;
    while (receive_answer(u))
        send_next(u);
    perf_code_ask(u->env.code);
    u->env.code->answered(u->env.code->userdata);
}

static bool has_cpu_time(struct perf_unwinder *u)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    u->left += (now - u->filled) / UNWIND_CPU_PART;
    u->filled = now;
    if (u->left > BURST)
        u->left = BURST;
    return u->left > 0;
}

static bool has_states(struct perf_unwinder *u, size_t n)
{
    if (n <= u->n_states)
        return true;
    uint8_t *states = realloc(u->states, 2 * n);
    if (!states)
        return false;
    memset(states + u->n_states, TABLES_UNKNOWN, 2 * n - u->n_states);
    u->states = states;
    u->n_states = 2 * n;
    return true;
}

static uint32_t write_mappings(const struct perf_task *task, struct unwind_mapping *ret)
{
    uint32_t n = 0;
    vec_foreach(&task->code.ranges, range) {
        const struct task_mapping *mapping = &task->mappings.items[range->number];
        ret[n++] = (struct unwind_mapping){
            .start = range->start,
            .end = range->end,
            .offset = range->start - mapping->start + mapping->offset,
            .file = mapping->file < CODE_FIRST ? UNWIND_NO_FILE : mapping->file};
    }
    return n;
}

bool perf_unwinder_ask(struct perf_unwinder *u, const struct perf_record *record,
                       const struct perf_task *task, uint64_t number)
{
    size_t n_mappings = task->code.ranges.n, n_registers = record->sample.n_registers;
    size_t before = sizeof(struct unwind_sample) + n_mappings * sizeof(struct unwind_mapping);
    if (u->fd < 0 || !record->sample.registers || n_registers > UNWIND_REGISTERS_MAX ||
        is_blamed(u, task->owner.payer) || n_mappings == 0 || n_mappings > UNWIND_MAPPINGS_MAX ||
        u->end - u->first >= u->n_places || !has_cpu_time(u) ||
        !has_states(u, u->env.code->files.n))
        return false;
    struct place *place = place_of(u, u->end);
    struct unwind_sample *sample = (struct unwind_sample *)place->message;
    struct unwind_mapping *mappings = (struct unwind_mapping *)(sample + 1);
    *sample = (struct unwind_sample){.kind = UNWIND_SAMPLE, .number = number};
    memcpy(sample->registers, record->sample.registers, n_registers * sizeof(uint64_t));
    sample->n_mappings = write_mappings(task, mappings);
    sample->space = hash_bytes(mappings, n_mappings * sizeof(*mappings));
    sample->stack_size = record->sample.stack_size;
    if (sample->stack_size > UNWIND_MESSAGE_MAX - before)
        sample->stack_size = UNWIND_MESSAGE_MAX - before;
    if (sample->stack_size > 0)
        memcpy(place->message + before, record->sample.stack, sample->stack_size);
    place->number = number;
    place->payer = task->owner.payer;
    place->size = before + sample->stack_size;
    place->deadline = nsec_now(CLOCK_MONOTONIC) + TABLES_WAIT;
    u->end++;
    send_next(u);
    return u->fd >= 0;
}

size_t perf_unwinder_n_waiting(const struct perf_unwinder *u)
{
    return u ? (size_t)(u->end - u->first) : 0;
}

void perf_unwinder_settle(struct perf_unwinder *u, nsec_t deadline)
{
    while (perf_unwinder_n_waiting(u) > 0) {
        nsec_t left = deadline - nsec_now(CLOCK_MONOTONIC);
        struct pollfd poll_fd = {.fd = u->fd, .events = POLLIN};
        if (left <= 0)
            return;
        send_next(u);
        if (u->unsent == u->first) { // waits for tables, unless the unwinder has ended
            bool is_idle = foreign_helper_settle(u->env.helper, deadline) && !receive_answer(u);
            if (is_idle && u->unsent == u->first)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
            continue;
        }
        if (poll(&poll_fd, 1, (int)(left / NSEC_PER_MSEC) + 1) > 0)
            answer_ready(u);
    }
}
