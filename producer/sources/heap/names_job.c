// SPDX-License-Identifier: Apache-2.0
//
// A process may see other files than the recorder under the same paths (containers), and may have
// ended. Therefore its root is held from its beginning on, and its files are looked up only there.
// A stripped file has its symbols in a debug file: in the process's root, or in this machine's own
// folder, where files are found by build id only.
//
// Files are identified by device and inode, not by name, and are opened with the rights of the
// process. Cached symbols are dropped when others need the room. A file with another build id than
// the program's counts as missing.
#include "producer/sources/heap/names_job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/path.h"
#include "producer/ground/ids.h"
#include "producer/heap/elf_symbols.h"
#include "producer/heap/elf_unwind.h"

#define DEBUG_FOLDER "/usr/lib/debug/.build-id/"
#define ROOTS_MAX    1024
#define KNOWN_MAX    4096 // file names with their results

struct held_root {
    uint64_t number;
    int fd;          // owned
    struct statx is; // its mount, and its identity there
};
VEC_DEFINE(held_root_vec, struct held_root);

struct symbol_file {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    uint64_t number, last_used, bytes;
    struct elf_symbols symbols;
    struct elf_code code; // for a debug file, the code of the file that it belongs to
};
VEC_DEFINE(symbol_file_vec, struct symbol_file *);

// The result of a request, so that the file is found again when its name is gone.
struct known_file {
    uint64_t key, number;
};

struct names_state {
    struct held_root_vec roots;
    struct symbol_file_vec files;
    struct known_file known[KNOWN_MAX]; // by hash
    struct budget read;
    uint64_t n_roots, n_files, n_questions, bytes;
    int own_root_fd;
};

// A parsed request.
struct names_question {
    const struct names_ask *ask;
    const uint64_t *pcs;
    const char *id, *path;
};

static struct names_state *state_of(struct foreign_worker *worker)
{
    static const struct budget_limits limits = {.what = "bytes of symbols",
                                                .each_max = NAMES_READ_MAX};
    struct names_state *state = *worker->state;
    if (!state && (state = calloc(1, sizeof(*state)))) {
        budget_init(&state->read, &limits);
        state->own_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        *worker->state = state;
    }
    return state;
}

// Roots.

// Processes in other mount namespaces see other files below the same folder, in other mounts.
static bool is_same(const struct statx *a, const struct statx *b)
{
    return (a->stx_mask & b->stx_mask & STATX_MNT_ID) && a->stx_mnt_id == b->stx_mnt_id &&
           a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
           a->stx_dev_minor == b->stx_dev_minor;
}

static uint64_t hold(struct names_state *state, int *fd)
{
    struct statx is = {0};
    if (*fd < 0)
        return 0;
    if (statx(*fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &is) < 0)
        is.stx_mask = 0;
    vec_foreach(&state->roots, root)
        if (is_same(&root->is, &is))
            return root->number;
    // Numbers of an earlier helper are invalid here.
    uint64_t number = (uint64_t)getpid() << 32 | ++state->n_roots;
    struct held_root fresh = {number, *fd, is};
    if (state->roots.n >= ROOTS_MAX) {
        close_fd(state->roots.items[0].fd);
        memmove(state->roots.items, state->roots.items + 1,
                --state->roots.n * sizeof(state->roots.items[0]));
    }
    if (held_root_vec_push(&state->roots, fresh) < 0)
        return 0;
    steal_fd(fd);
    return number;
}

void names_hold_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret)
{
    struct names_state *state = state_of(worker);
    uint64_t number = state ? hold(state, &request->fd) : 0;
    ret->result = number ? 0 : -ESTALE;
    memcpy(ret->bytes, &number, sizeof(number));
    ret->size = sizeof(number);
}

static int root_of(const struct names_state *state, uint64_t number)
{
    vec_foreach(&state->roots, root)
        if (root->number == number)
            return root->fd;
    return -1;
}

// Files.

static void file_forget(struct names_state *state, size_t at)
{
    struct symbol_file *file = state->files.items[at];
    state->bytes -= file->bytes;
    elf_symbols_done(&file->symbols);
    free(file);
    state->files.items[at] = state->files.items[--state->files.n];
}

static void make_room(struct names_state *state, uint64_t bytes)
{
    while (state->files.n > 0 && state->bytes + bytes > NAMES_CACHE_MAX) {
        size_t oldest = 0;
        for (size_t i = 1; i < state->files.n; i++)
            if (state->files.items[i]->last_used < state->files.items[oldest]->last_used)
                oldest = i;
        file_forget(state, oldest);
    }
}

static struct symbol_file *file_by_stat(const struct names_state *state, const struct stat *st)
{
    vec_foreach(&state->files, item) {
        const struct symbol_file *file = *item;
        if (file->device == st->st_dev && file->inode == st->st_ino && file->size == st->st_size &&
            file->modified.tv_sec == st->st_mtim.tv_sec &&
            file->modified.tv_nsec == st->st_mtim.tv_nsec)
            return *item;
    }
    return NULL;
}

static int file_read(struct names_state *state, uint64_t payer, int fd, const struct stat *st,
                     struct symbol_file **ret)
{
    bool is_trusted = st->st_uid == 0 || st->st_uid == geteuid();
    uint64_t held = budget_held(&state->read, payer);
    if (!is_trusted && held >= NAMES_READ_MAX)
        return -EDQUOT;
    struct symbol_file *file = calloc(1, sizeof(*file));
    if (!file || symbol_file_vec_reserve(&state->files, state->files.n + 1) < 0) {
        free(file);
        return -ENOMEM;
    }
    *file = (struct symbol_file){.device = st->st_dev,
                                 .inode = st->st_ino,
                                 .size = st->st_size,
                                 .modified = st->st_mtim,
                                 .number = ++state->n_files};
    elf_code_read(fd, &file->code);
    // A file without symbols is remembered, too.
    int r = elf_symbols_read(fd, is_trusted ? ELF_TABLE_MAX : NAMES_TABLE_MAX, &file->symbols);
    file->bytes = sizeof(*file) + elf_symbols_bytes(&file->symbols);
    if (!is_trusted)
        budget_take(&state->read, payer, file->bytes, 0, NULL);
    make_room(state, file->bytes);
    state->bytes += file->bytes;
    symbol_file_vec_push(&state->files, file);
    *ret = file;
    return r == -EFBIG ? r : 0;
}

static bool is_of_build(const struct symbol_file *file, const struct names_question *q)
{
    const struct elf_symbols *symbols = &file->symbols;
    return q->ask->id_size == 0 || (symbols->build_id_size == 0 && !q->ask->needs_id) ||
           (symbols->build_id_size == q->ask->id_size &&
            memcmp(symbols->build_id, q->id, q->ask->id_size) == 0);
}

// Opens a file below `root_fd`. `as_process`: with the ids of the process's user. Returns the
// descriptor or a negative errno.
static int file_hold(const struct names_question *q, int root_fd, const char *path, bool as_process,
                     struct stat *ret_st)
{
    static const struct foreign_want regular = {.type = S_IFREG};
    struct foreign_ids own;
    bool is_other = as_process && geteuid() == 0 && q->ask->uid != 0;
    if (path[0] != '/' || root_fd < 0)
        return -ENOENT;
    if (is_other && foreign_ids_take(q->ask->uid, q->ask->gid, &own) < 0)
        return NAMES_REFUSED;
    int fd = foreign_open(root_fd, path + 1, 0, &regular, ret_st);
    if (is_other)
        foreign_ids_return(&own);
    return fd;
}

// Reads the symbols of a file, unless they are known.
static int file_open(struct names_state *state, const struct names_question *q, int root_fd,
                     const char *path, bool as_process, struct symbol_file **ret)
{
    struct stat st;
    int fd CLEANUP(close_fdp) = file_hold(q, root_fd, path, as_process, &st);
    if (fd < 0)
        return fd;
    int r = 0;
    *ret = file_by_stat(state, &st);
    if (!*ret)
        r = file_read(state, q->ask->payer, fd, &st, ret);
    return r == 0 && !is_of_build(*ret, q) ? -ESTALE : r;
}

// Replaces *file by the debug file if only the debug file has the full symbol table.
static void find_debug_file(struct names_state *state, const struct names_question *q, int root_fd,
                            struct symbol_file **file)
{
    char path[sizeof(DEBUG_FOLDER) + 2 * ELF_BUILD_ID_MAX + 16] = DEBUG_FOLDER;
    size_t n = strlen(path);
    struct symbol_file *found = NULL;
    const struct elf_code code = *file ? (*file)->code : (struct elf_code){0};
    const void *id = q->ask->id_size ? (const void *)q->id : code.build_id;
    uint32_t id_size = q->ask->id_size ? q->ask->id_size : code.build_id_size;
    if ((*file && (*file)->symbols.is_whole) || id_size < 2 || id_size > ELF_BUILD_ID_MAX)
        return;
    for (uint32_t i = 0; i < id_size; i++)
        n += (size_t)snprintf(path + n, sizeof(path) - n, i == 0 ? "%02x/" : "%02x",
                              ((const unsigned char *)id)[i]);
    snprintf(path + n, sizeof(path) - n, ".debug");
    uint64_t number = *file ? (*file)->number : 0;
    bool is_there =
        file_open(state, q, root_fd, path, true, &found) == 0 && found->symbols.is_whole;
    if (!is_there)
        is_there = file_open(state, q, state->own_root_fd, path, false, &found) == 0 &&
                   found->symbols.is_whole;
    if (is_there) {
        if (*file) // perhaps freed: the debug file can push it out of the cache
            found->code = code;
        *file = found;
        return;
    }
    *file = NULL;
    vec_foreach(&state->files, kept)
        if ((*kept)->number == number)
            *file = *kept;
}

static uint64_t key_of(const struct names_question *q)
{
    const uint64_t parts[] = {q->ask->root, q->ask->uid, q->ask->needs_id,
                              hash_bytes(q->id, q->ask->id_size),
                              hash_bytes(q->path, strlen(q->path))};
    return hash_bytes(parts, sizeof(parts));
}

static struct symbol_file *file_known(const struct names_state *state, uint64_t key)
{
    const struct known_file *known = &state->known[key % KNOWN_MAX];
    if (known->key == key)
        vec_foreach(&state->files, file)
            if ((*file)->number == known->number)
                return *file;
    return NULL;
}

static int file_find(struct names_state *state, const struct names_question *q,
                     struct symbol_file **ret)
{
    uint64_t key = key_of(q);
    int root_fd = root_of(state, q->ask->root);
    if (root_fd < 0)
        return -ESTALE;
    *ret = file_known(state, key);
    if (*ret)
        return 0;
    int r = file_open(state, q, root_fd, q->path, true, ret);
    if (r < 0 && r != -EFBIG)
        *ret = NULL;
    find_debug_file(state, q, root_fd, ret);
    if (!*ret)
        return r < 0 && r != -ESTALE ? r : -ENOENT;
    state->known[key % KNOWN_MAX] = (struct known_file){key, (*ret)->number};
    return (*ret)->symbols.n > 0 ? 0 : r;
}

// Handling a request.

static int take_apart(const struct foreign_request *request, struct names_question *ret)
{
    static char path[PATH_MAX];
    const struct names_ask *ask = request->bytes;
    ret->ask = ask;
    ret->pcs = (const uint64_t *)(ask + 1);
    ret->id = (const char *)(ret->pcs + ask->n);
    ret->path = path;
    if (ask->path_size >= sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path, ret->id + ask->id_size, ask->path_size);
    path[ask->path_size] = 0;
    return 0;
}

static void write_names(const struct names_question *q, const struct symbol_file *file,
                        struct foreign_answer *ret)
{
    struct names_answer answer = {.code = file->code};
    uint64_t bias = q->ask->are_offsets ? file->code.load_bias : 0;
    size_t at = sizeof(answer);
    for (uint32_t i = 0; i < q->ask->n; i++, answer.n++) {
        const char *name = elf_symbols_find(&file->symbols, q->pcs[i] + bias);
        size_t size = name ? strnlen(name, NAMES_TEXT_MAX + 1) : 0;
        uint16_t told = name && size <= NAMES_TEXT_MAX ? (uint16_t)size : NAMES_NONE;
        size = told == NAMES_NONE ? 0 : size;
        if (at + sizeof(told) + size > FOREIGN_MESSAGE_MAX)
            break;
        memcpy(ret->bytes + at, &told, sizeof(told));
        if (size)
            memcpy(ret->bytes + at + sizeof(told), name, size);
        at += sizeof(told) + size;
    }
    memcpy(ret->bytes, &answer, sizeof(answer));
    ret->size = at;
}

void names_find_job(struct foreign_worker *worker, struct foreign_request *request,
                    struct foreign_answer *ret)
{
    struct names_state *state = state_of(worker);
    struct names_question question;
    struct symbol_file *file = NULL;
    int r = state ? take_apart(request, &question) : -ENOMEM;
    if (r == 0)
        r = file_find(state, &question, &file);
    if (r == 0) {
        file->last_used = ++state->n_questions;
        write_names(&question, file, ret);
    }
    ret->result = r;
}

struct names_reader names_reader_over(const uint8_t *bytes, size_t size)
{
    struct names_reader reader = {.next = bytes, .end = bytes};
    if (size < sizeof(reader.answer))
        return reader;
    reader.end += size;
    memcpy(&reader.answer, bytes, sizeof(reader.answer));
    reader.next += sizeof(reader.answer);
    return reader;
}

bool names_reader_next(struct names_reader *reader, struct text *ret)
{
    uint16_t n;
    if (reader->answer.n == 0 || (size_t)(reader->end - reader->next) < sizeof(n))
        return false;
    memcpy(&n, reader->next, sizeof(n));
    const uint8_t *name = reader->next + sizeof(n);
    if (n != NAMES_NONE && n > reader->end - name)
        return false;
    *ret = n == NAMES_NONE ? (struct text){0} : (struct text){(const char *)name, n};
    reader->next = name + ret->size;
    reader->answer.n--;
    return true;
}

// Copies the tables of the file that the process has mapped.
static int tables_copy(struct names_state *state, const struct names_question *q,
                       struct elf_unwind *ret, int *ret_fd)
{
    struct stat st;
    struct elf_code code;
    int root_fd = root_of(state, q->ask->root);
    if (root_fd < 0)
        return -ESTALE;
    int fd CLEANUP(close_fdp) = file_hold(q, root_fd, q->path, true, &st);
    int r = fd < 0 ? fd : elf_code_read(fd, &code);
    if (r < 0)
        return r;
    bool has_id = code.build_id_size > 0 || q->ask->needs_id;
    if (q->ask->id_size > 0 && has_id &&
        (code.build_id_size != q->ask->id_size ||
         memcmp(code.build_id, q->id, q->ask->id_size) != 0))
        return -ENOENT;
    int copy_fd CLEANUP(close_fdp) =
        memfd_create("mmtrace-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    r = copy_fd < 0 ? -errno : elf_unwind_copy(fd, copy_fd, ret);
    if (r == 0 && fcntl(copy_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    if (r == 0)
        *ret_fd = steal_fd(&copy_fd);
    return r;
}

void names_tables_job(struct foreign_worker *worker, struct foreign_request *request,
                      struct foreign_answer *ret)
{
    struct names_state *state = state_of(worker);
    struct names_question question;
    struct elf_unwind tables;
    int r = state ? take_apart(request, &question) : -ENOMEM;
    if (r == 0)
        r = tables_copy(state, &question, &tables, &ret->fd);
    if (r == 0) {
        memcpy(ret->bytes, &tables, sizeof(tables));
        ret->size = sizeof(tables);
    }
    ret->result = r;
}
