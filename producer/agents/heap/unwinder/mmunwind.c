// SPDX-License-Identifier: Apache-2.0
//
// mmunwind: follows copied stacks by the unwind tables of files (DWARF). libunwind interprets
// tables and stacks of programs of any user. Therefore mmunwind is a separate program, which can
// only read memory and answer. The recorder does not link libunwind, and gives this process no more
// work than the recorder's limit of CPU time permits.
//
// Addresses lead to the copied stack, or to the tables of a file. This process does not have the
// rest of a file. libunwind reads some words of the rest, for example the pointers to the routines
// of exceptions, but does not need their values: these words are read as zero.
//
// Tables of strangers can keep libunwind busy for ever. A timer ends the process then, and the
// recorder starts another process.
//
// libunwind keeps the rules that it found, by address. Each set of mappings has a space of its own.
// The least recently used space makes room for a new space.
#include <errno.h>
#include <libunwind.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/sandbox.h"
#include "common/unix_socket.h"
#include "producer/heap/unwind_abi.h"

#define SPACES_MAX 64
#define STACK_TIME (200 * NSEC_PER_MSEC) // CPU time for one stack
#define RULES      1024                  // of one space; a power of two
#define FILES_SIZE (UINT64_C(1) << 30)   // bytes of tables of all files
#define INDEX_HEAD 12                    // bytes in front of the entries of an index
#define INDEX_PART 8                     // bytes of an entry

// libunwind exports the search in an index, and does not declare it.
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip,
                                              unw_dyn_info_t *table, unw_proc_info_t *ret,
                                              int need_unwind_info, void *argument);

struct file {
    const uint8_t *bytes; // owned (mmap); NULL: no tables
    struct elf_unwind tables;
};

struct space {
    uint64_t key, last_used;
    unw_addr_space_t is; // owned
};

struct unwinder {
    struct file *files; // owned
    uint64_t files_size, n_samples;
    struct space spaces[SPACES_MAX];
    // The sample.
    const struct unwind_sample *sample;
    const struct unwind_mapping *mappings;
    const uint8_t *stack;
    bool no_memory, no_table;
};

// The place of each register in the kernel's sample (mask 0xff0fff: without segment registers), by
// libunwind's number.
static const uint8_t places[] = {
    [UNW_X86_64_RAX] = 0,  [UNW_X86_64_RBX] = 1,  [UNW_X86_64_RCX] = 2,  [UNW_X86_64_RDX] = 3,
    [UNW_X86_64_RSI] = 4,  [UNW_X86_64_RDI] = 5,  [UNW_X86_64_RBP] = 6,  [UNW_X86_64_RSP] = 7,
    [UNW_X86_64_RIP] = 8,  [UNW_X86_64_R8] = 12,  [UNW_X86_64_R9] = 13,  [UNW_X86_64_R10] = 14,
    [UNW_X86_64_R11] = 15, [UNW_X86_64_R12] = 16, [UNW_X86_64_R13] = 17, [UNW_X86_64_R14] = 18,
    [UNW_X86_64_R15] = 19,
};

static const struct unwind_mapping *mapping_at(const struct unwinder *u, uint64_t address)
{
    size_t low = 0, high = u->sample->n_mappings;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (u->mappings[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < u->mappings[low - 1].end ? &u->mappings[low - 1] : NULL;
}

static const struct file *file_of(const struct unwinder *u, const struct unwind_mapping *mapping)
{
    if (!mapping || mapping->file >= UNWIND_FILES_MAX || !u->files[mapping->file].bytes)
        return NULL;
    return &u->files[mapping->file];
}

// Returns where the file's address 0 is in the process.
static uint64_t base_of(const struct file *file, const struct unwind_mapping *mapping)
{
    return mapping->start - mapping->offset - file->tables.load_bias;
}

// Reads a word that is not on the stack.
static int read_file(struct unwinder *u, uint64_t address, uint64_t *ret)
{
    for (size_t i = 0; i < u->sample->n_mappings; i++) {
        const struct file *file = file_of(u, &u->mappings[i]);
        if (!file)
            continue;
        uint64_t at = address - base_of(file, &u->mappings[i]);
        if (at < file->tables.low || at >= file->tables.high)
            continue;
        uint64_t inside = at - file->tables.start;
        *ret = 0;
        if (at >= file->tables.start && inside < file->tables.size) {
            uint64_t n = file->tables.size - inside;
            memcpy(ret, file->bytes + inside, n < sizeof(*ret) ? (size_t)n : sizeof(*ret));
        }
        return 0;
    }
    u->no_memory = true;
    return -UNW_EINVAL;
}

static int access_memory(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                         void *argument)
{
    struct unwinder *u = argument;
    uint64_t begin = u->sample->registers[places[UNW_X86_64_RSP]];
    (void)space;
    if (write)
        return -UNW_EINVAL;
    uint64_t at = address - begin;
    if (u->sample->stack_size >= sizeof(*value) && at <= u->sample->stack_size - sizeof(*value)) {
        memcpy(value, u->stack + at, sizeof(*value));
        return 0;
    }
    return read_file(u, address, value);
}

static int access_register(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value,
                           int write, void *argument)
{
    const struct unwinder *u = argument;
    (void)space;
    if (write || number < 0 || (size_t)number >= sizeof(places))
        return -UNW_EBADREG;
    *value = u->sample->registers[places[number]];
    return 0;
}

static int find_rules(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *ret, int need,
                      void *argument)
{
    struct unwinder *u = argument;
    const struct unwind_mapping *mapping = mapping_at(u, ip);
    const struct file *file = file_of(u, mapping);
    if (!file) {
        u->no_table = true;
        return -UNW_ENOINFO;
    }
    uint64_t index = base_of(file, mapping) + file->tables.index;
    uint64_t n_entries = (file->tables.index_size - INDEX_HEAD) / INDEX_PART;
    unw_dyn_info_t table = {
        .start_ip = mapping->start,
        .end_ip = mapping->end,
        .format = UNW_INFO_FORMAT_REMOTE_TABLE,
        .u.rti = {.segbase = index,
                  .table_data = index + INDEX_HEAD,
                  .table_len = n_entries * INDEX_PART / sizeof(unw_word_t)},
    };
    int r = UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, ret, need, argument);
    u->no_table |= r < 0;
    return r;
}

static void put_rules(unw_addr_space_t space, unw_proc_info_t *info, void *argument)
{
    (void)space;
    (void)info; // libunwind itself frees the result of its search
    (void)argument;
}

static int no_list(unw_addr_space_t space, unw_word_t *ret, void *argument)
{
    (void)space;
    (void)ret;
    (void)argument;
    return -UNW_ENOINFO;
}

static int no_float(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
                    void *argument)
{
    (void)space;
    (void)number;
    (void)value;
    (void)write;
    (void)argument;
    return -UNW_EINVAL;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument)
{
    (void)space;
    (void)cursor;
    (void)argument;
    return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t address, char *name, size_t size,
                   unw_word_t *offset, void *argument)
{
    (void)space;
    (void)address;
    (void)name;
    (void)size;
    (void)offset;
    (void)argument;
    return -UNW_EINVAL;
}

static unw_addr_space_t space_of(struct unwinder *u, uint64_t key)
{
    static unw_accessors_t accessors = {
        .find_proc_info = find_rules,
        .put_unwind_info = put_rules,
        .get_dyn_info_list_addr = no_list,
        .access_mem = access_memory,
        .access_reg = access_register,
        .access_fpreg = no_float,
        .resume = no_resume,
        .get_proc_name = no_name,
    };
    struct space *oldest = &u->spaces[0];
    for (struct space *space = u->spaces; space < u->spaces + SPACES_MAX; space++) {
        if (space->is && space->key == key) {
            space->last_used = u->n_samples;
            return space->is;
        }
        if (space->last_used < oldest->last_used)
            oldest = space;
    }
    if (oldest->is)
        unw_flush_cache(oldest->is, 0, 0);
    else
        oldest->is = unw_create_addr_space(&accessors, 0);
    if (!oldest->is)
        return NULL;
    unw_set_caching_policy(oldest->is, UNW_CACHE_GLOBAL);
    unw_set_cache_size(oldest->is, RULES, 0);
    oldest->key = key;
    oldest->last_used = u->n_samples;
    return oldest->is;
}

static void follow(struct unwinder *u, unw_addr_space_t space, struct unwind_answer *ret)
{
    unw_cursor_t cursor;
    bool is_return = false;
    int r = unw_init_remote(&cursor, space, u) < 0 ? -1 : 1;
    while (r > 0 && ret->n < UNWIND_FRAMES_MAX) {
        unw_word_t ip = 0;
        unw_get_reg(&cursor, UNW_REG_IP, &ip);
        uint64_t address = ip - is_return;
        const struct unwind_mapping *mapping = mapping_at(u, address);
        if (!mapping && ret->n > 0) // the end of a stack, or a wrong step
            break;
        ret->frames[ret->n++] = (struct unwind_frame){
            .address = address,
            .mapping = mapping ? (uint32_t)(mapping - u->mappings) : UNWIND_NO_FILE};
        is_return = unw_is_signal_frame(&cursor) <= 0;
        u->no_memory = u->no_table = false;
        r = unw_step(&cursor);
        if (r > 0 && u->no_table) // a guess by the frame pointer
            break;
    }
    ret->end = r > 0 && ret->n == UNWIND_FRAMES_MAX ? UNWIND_TOO_LONG
               : u->no_table                        ? UNWIND_NO_TABLE
               : u->no_memory                       ? UNWIND_NO_MEMORY
               : r < 0                              ? UNWIND_NO_TABLE
                                                    : UNWIND_WHOLE;
}

static nsec_t cpu_now(void)
{
    return nsec_now(CLOCK_PROCESS_CPUTIME_ID);
}

// SIGPROF ends the process.
static void limit_time(nsec_t time)
{
    const struct itimerval timer = {.it_value.tv_usec = (suseconds_t)(time / NSEC_PER_USEC)};
    setitimer(ITIMER_PROF, &timer, NULL);
}

static bool take_sample(struct unwinder *u, const uint8_t *bytes, size_t size,
                        struct unwind_answer *ret)
{
    const struct unwind_sample *sample = (const void *)bytes;
    nsec_t begin = cpu_now();
    if (size < sizeof(*sample) || sample->n_mappings > UNWIND_MAPPINGS_MAX)
        return false;
    size_t before = sizeof(*sample) + sample->n_mappings * sizeof(struct unwind_mapping);
    if (size < before || sample->stack_size != size - before)
        return false;
    u->sample = sample;
    u->mappings = (const void *)(sample + 1);
    u->stack = bytes + before;
    u->n_samples++;
    *ret = (struct unwind_answer){.number = sample->number, .end = UNWIND_NO_TABLE};
    unw_addr_space_t space = space_of(u, sample->space);
    limit_time(STACK_TIME);
    if (space)
        follow(u, space, ret);
    limit_time(0);
    ret->cpu_ns = (uint64_t)(cpu_now() - begin);
    return true;
}

// The recorder made the memory, and nobody can change it any more.
static void take_file(struct unwinder *u, const struct unwind_file *message, int fd)
{
    const struct elf_unwind *tables = &message->tables;
    struct file *file = message->file < UNWIND_FILES_MAX ? &u->files[message->file] : NULL;
    if (fd < 0 || !file || file->bytes || tables->size == 0 || tables->size > ELF_UNWIND_MAX ||
        tables->size > FILES_SIZE - u->files_size || tables->index_size <= INDEX_HEAD)
        return;
    void *bytes = mmap(NULL, tables->size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return;
    u->files_size += tables->size;
    *file = (struct file){bytes, *tables};
}

int main(void)
{
    static uint8_t message[UNWIND_MESSAGE_MAX] __attribute__((aligned(8)));
    static struct unwind_answer answer;
    static struct unwinder u;
    u.files = calloc(UNWIND_FILES_MAX, sizeof(*u.files));
    int r = u.files ? sandbox_shuffles() : -ENOMEM;
    if (r < 0 && !sandbox_is_unavailable(r))
        return 1;
    for (;;) {
        int fd = -1;
        int64_t n = unix_socket_receive(UNWIND_SOCKET_FD, message, sizeof(message), 0, &fd);
        if (n == -EINTR)
            continue;
        if (n < (int64_t)sizeof(uint32_t))
            return 0; // the recorder is gone
        uint32_t kind;
        memcpy(&kind, message, sizeof(kind));
        if (kind == UNWIND_FILE && n == (int64_t)sizeof(struct unwind_file))
            take_file(&u, (const void *)message, fd);
        close_fd(fd);
        if (kind != UNWIND_SAMPLE || !take_sample(&u, message, (size_t)n, &answer))
            continue;
        size_t size = offsetof(struct unwind_answer, frames) + answer.n * sizeof(answer.frames[0]);
        if (unix_socket_send(UNWIND_SOCKET_FD, &answer, size, -1, 0) < 0)
            return 0;
    }
}
