// SPDX-License-Identifier: Apache-2.0
//
// A frame is a place in a file, not in a process: programs that run a thousand times, such as
// compilers, have their frames and stacks once. Code without a file keeps its addresses: perf maps
// name them for each process.
//
// One request for a file runs at a time. Its answer has the names of some hundred frames, the build
// id, and where the file's code is. A sample is written when its frames have their names.
#include "producer/sources/perf/perf_code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/foreign/path.h"
#include "producer/foreign/payer.h"
#include "producer/sources/heap/names_job.h"

#define FILES_MAX       60000
#define OFFSET_BITS     48
#define FRAMES_MAX      (1u << 19)
#define STACK_PLACES    (1u << 22) // frames of all stacks
#define PATH_BYTES      4096
#define NOBODY          65534 // reads files that everybody may read
#define CALLS_MAX       64    // at a time
#define HOLDS_MAX       8
#define NAMES_TIME      (10 * NSEC_PER_SEC)
#define NAME_EXTRA      64 // approximate memory of a text beside its bytes
#define NAME_BYTES_EACH (UINT64_C(16) << 20)
#define NAME_BYTES_ALL  (UINT64_C(64) << 20)

struct names_call {
    struct perf_code *code; // borrowed; NULL: it is gone
    uint32_t file, n;
    uint64_t root; // the helper's number
    uint64_t generation;
};

int perf_code_init(struct perf_code *code, struct foreign_helper *helper, const struct log *log,
                   const char *proc)
{
    *code = (struct perf_code){.helper = helper, .log = log, .proc = proc};
    budget_init(&code->bytes, &(struct budget_limits){.what = "bytes of names",
                                                      .each_max = NAME_BYTES_EACH,
                                                      .all_max = NAME_BYTES_ALL});
    // CODE_NOWHERE and CODE_KERNEL.
    for (uint32_t i = 0; i < CODE_FIRST; i++)
        if (strset_add(&code->keys, (const char *)&i, sizeof(i)) == STRSET_NONE ||
            code_file_vec_push(&code->files, (struct code_file){.is_done = true}) < 0)
            return -ENOMEM;
    code->files.items[CODE_NOWHERE].path = "[anon]";
    code->files.items[CODE_KERNEL].path = "kernel";
    code->own_root = helper ? names_root_add(&code->roots, foreign_root(proc, getpid())) : 0;
    return 0;
}

void perf_code_done(struct perf_code *code)
{
    vec_foreach(&code->files, file) {
        free(file->to_name.items);
        if (file->call)
            file->call->code = NULL;
    }
    names_roots_done(&code->roots);
    strset_done(&code->keys);
    code_file_vec_done(&code->files);
    strset_done(&code->texts);
    budget_done(&code->bytes);
    perf_code_forget(code);
    code_frame_vec_done(&code->frames);
    code_stack_vec_done(&code->stacks);
    code_u32_vec_done(&code->stack_frames);
    map64_done(&code->frame_of);
    map64_done(&code->stack_of);
}

// Files.

// A process without a root has ended, but keeps its ids until its parent reaps it.
void perf_code_owner(struct perf_code *code, int32_t pid, const struct code_owner *former,
                     struct code_owner *ret)
{
    *ret = (struct code_owner){.ids = {NOBODY, NOBODY}, .payer = NOBODY, .is_guessed = true};
    if (!code->helper)
        return;
    struct foreign_ids ids;
    bool has_ids = foreign_ids_of(code->proc, pid, &ids) == 0;
    int fd = has_ids ? foreign_root(code->proc, pid) : -ESRCH;
    bool is_refused = fd == -EACCES || fd == -EPERM;
    if (fd < 0 && !is_refused && former) {
        *ret = *former;
        ret->payer = NOBODY; // the guess may be wrong: nobody else pays for it
        ret->is_guessed = true;
    }
    if (fd >= 0 || (has_ids && !is_refused && ret->root)) {
        ret->ids = ids;
        ret->payer = foreign_payer(code->proc, pid, ids.uid);
    }
    if (fd >= 0) {
        ret->root = names_root_add(&code->roots, fd);
        ret->is_guessed = false;
    } else if (is_refused && !code->refusal_told) {
        code->refusal_told = true;
        log_warning(code->log,
                    "linux.perf: process %d of user %u: the recorder may not look at its files "
                    "(" FOREIGN_RIGHTS_HINT
                    "): functions of this and similar processes have no names",
                    pid, (unsigned)ids.uid);
    }
}

// Returns whether the path may lead to symbols. Anonymous memory and memfds hold code that was made
// at run time.
static bool is_file(const char *path)
{
    return (path[0] == '/' && path[1] != '/' && !str_starts_with(path, "/memfd:") &&
            !str_starts_with(path, "/dev/zero")) ||
           str_eq(path, "[vdso]");
}

uint32_t perf_code_file(struct perf_code *code, const struct code_owner *owner,
                        const struct code_mapping *mapping)
{
    char key[sizeof(*owner) + ELF_BUILD_ID_MAX + PATH_BYTES];
    size_t n_path = strlen(mapping->path), n_id = mapping->build_id_size;
    struct code_owner reads = *owner;
    if (!is_file(mapping->path) || n_path >= PATH_BYTES || n_id > ELF_BUILD_ID_MAX)
        return CODE_NOWHERE;
    // The path of a process that has ended may lead to another file here: the build id decides.
    if (reads.root == 0) {
        reads.root = code->own_root;
        reads.is_guessed = true;
    }
    if (reads.is_guessed && n_id == 0)
        reads.root = 0;
    memset(key, 0, sizeof(reads));
    memcpy(key, &reads.root, sizeof(reads.root));
    memcpy(key + sizeof(reads.root), &reads.ids, sizeof(reads.ids));
    key[sizeof(reads.root) + sizeof(reads.ids)] = (char)reads.is_guessed;
    memcpy(key + sizeof(reads), mapping->path, n_path + 1);
    if (n_id)
        memcpy(key + sizeof(reads) + n_path + 1, mapping->build_id, n_id);
    size_t size = sizeof(reads) + n_path + 1 + n_id;
    uint32_t number = strset_find(&code->keys, key, size);
    if (number != STRSET_NONE)
        return number;
    if (code->files.n >= FILES_MAX || code_file_vec_reserve(&code->files, code->files.n + 1) < 0)
        return CODE_NOWHERE;
    number = strset_add(&code->keys, key, size);
    if (number == STRSET_NONE)
        return CODE_NOWHERE;
    struct code_file file = {
        .owner = reads,
        .path = strset_text(&code->keys, number) + sizeof(reads),
        .build_id_size = (uint32_t)n_id,
        .start = mapping->start,
        .end = mapping->end,
        .offset = mapping->offset,
        .is_done = !code->helper || reads.root == 0 || mapping->path[0] != '/',
    };
    if (n_id)
        memcpy(file.build_id, mapping->build_id, n_id);
    code_file_vec_push(&code->files, file);
    return number;
}

// Frames and stacks.

static uint32_t frame_add(struct perf_code *code, const struct code_frame *frame)
{
    bool is_new;
    uint64_t key =
        (uint64_t)frame->file << OFFSET_BITS | (frame->offset & ((UINT64_C(1) << OFFSET_BITS) - 1));
    uint64_t *number = map64_get_or_add(&code->frame_of, key, code->frames.n, &is_new);
    if (!number)
        return CODE_STACK_NONE;
    if (!is_new)
        return (uint32_t)*number;
    if (code_frame_vec_push(&code->frames, *frame) < 0) {
        map64_remove(&code->frame_of, key);
        return CODE_STACK_NONE;
    }
    return (uint32_t)*number;
}

uint32_t perf_code_frame(struct perf_code *code, uint32_t number, uint64_t offset)
{
    struct code_file *file = &code->files.items[number];
    struct code_frame frame = {.file = number, .offset = offset, .name = CODE_NAME_MISSING};
    size_t n = code->frames.n;
    if (file->is_done)
        return frame_add(code, &frame);
    struct code_frames *waits = &file->to_name;
    if (vec_reserve((void **)&waits->items, &waits->capacity, waits->n + 1, sizeof(uint32_t)) < 0)
        return CODE_STACK_NONE;
    frame.name = CODE_NAME_WAITS;
    uint32_t added = frame_add(code, &frame);
    if (code->frames.n > n)
        waits->items[waits->n++] = added;
    return added;
}

uint32_t perf_code_kernel_frame(struct perf_code *code, uint32_t function, const char *name)
{
    struct code_frame frame = {.file = CODE_KERNEL, .offset = function, .name = CODE_NAME_MISSING};
    const uint64_t *known =
        map64_find(&code->frame_of, (uint64_t)CODE_KERNEL << OFFSET_BITS | function);
    if (known)
        return (uint32_t)*known;
    uint32_t text = name ? strset_add(&code->texts, name, strlen(name)) : STRSET_NONE;
    if (text != STRSET_NONE)
        frame.name = text;
    return frame_add(code, &frame);
}

static bool is_stack(const struct perf_code *code, uint64_t number, const uint32_t *frames,
                     size_t n)
{
    const struct code_stack *stack = &code->stacks.items[number];
    return stack->n == n &&
           memcmp(code->stack_frames.items + stack->first, frames, n * sizeof(frames[0])) == 0;
}

uint32_t perf_code_stack(struct perf_code *code, const uint32_t *frames, size_t n)
{
    uint64_t key = hash_bytes(frames, n * sizeof(frames[0]));
    const uint64_t *known = map64_find(&code->stack_of, key);
    if (known && is_stack(code, *known, frames, n))
        return (uint32_t)*known;
    uint32_t first = (uint32_t)code->stack_frames.n;
    if (code_u32_vec_reserve(&code->stack_frames, first + n) < 0 ||
        map64_set(&code->stack_of, key, code->stacks.n) < 0 ||
        code_stack_vec_push(&code->stacks, (struct code_stack){.first = first, .n = (uint32_t)n}) <
            0) {
        map64_remove(&code->stack_of, key);
        return CODE_STACK_NONE;
    }
    for (size_t i = 0; i < n; i++)
        code_u32_vec_push(&code->stack_frames, frames[i]);
    return (uint32_t)(code->stacks.n - 1);
}

bool perf_code_is_ready(struct perf_code *code, uint32_t number)
{
    struct code_stack *stack = &code->stacks.items[number];
    for (uint32_t i = 0; !stack->is_ready && i < stack->n; i++) {
        uint32_t frame = code->stack_frames.items[stack->first + i];
        if (code->frames.items[frame].name == CODE_NAME_WAITS)
            return false;
    }
    stack->is_ready = true;
    return true;
}

bool perf_code_is_large(const struct perf_code *code)
{
    return code->frames.n > FRAMES_MAX || code->stack_frames.n > STACK_PLACES;
}

void perf_code_forget(struct perf_code *code)
{
    code->generation++;
    vec_foreach(&code->files, file)
        file->to_name.n = 0;
    code_frame_vec_clear(&code->frames);
    code_stack_vec_clear(&code->stacks);
    code_u32_vec_clear(&code->stack_frames);
    map64_clear(&code->frame_of);
    map64_clear(&code->stack_of);
}

const char *perf_code_name(const struct perf_code *code, const struct code_frame *frame)
{
    return frame->name >= CODE_NAME_WAITS ? NULL : strset_text(&code->texts, frame->name);
}

// Names.

static uint32_t keep_text(struct perf_code *code, const struct code_file *file, const char *text,
                          size_t size)
{
    struct err err = {0};
    uint32_t id = strset_find(&code->texts, text, size);
    if (id != STRSET_NONE)
        return id;
    if (budget_take(&code->bytes, file->owner.payer, size + NAME_EXTRA, 0, &err) < 0) {
        if (!code->limit_told)
            log_warning(code->log, "linux.perf: %s: %s: other functions have no names", file->path,
                        err.text);
        code->limit_told = true;
        return CODE_NAME_MISSING;
    }
    id = strset_add(&code->texts, text, size);
    return id == STRSET_NONE ? CODE_NAME_MISSING : id;
}

// Sets the name of waiting frame number `i`.
static void name_first(struct perf_code *code, struct code_file *file, size_t i, uint32_t name)
{
    code->frames.items[file->to_name.items[i]].name = name;
}

// Removes the first `n` of the waiting frames.
static void drop_first(struct code_file *file, size_t n)
{
    struct code_frames *waits = &file->to_name;
    memmove(waits->items, waits->items + n, (waits->n - n) * sizeof(waits->items[0]));
    waits->n -= n;
}

// Leaves the waiting frames and all later frames of the file without a name.
static void give_up(struct perf_code *code, struct code_file *file)
{
    for (size_t i = 0; i < file->to_name.n; i++)
        name_first(code, file, i, CODE_NAME_MISSING);
    file->to_name.n = 0;
    file->is_done = true;
}

static void take_code(struct code_file *file, const struct elf_code *is)
{
    file->load_bias = is->load_bias;
    if (file->build_id_size == 0 && is->build_id_size <= sizeof(file->build_id)) {
        memcpy(file->build_id, is->build_id, is->build_id_size);
        file->build_id_size = is->build_id_size;
    }
}

static void take_names(struct perf_code *code, const struct names_call *call, const uint8_t *bytes,
                       size_t size)
{
    struct code_file *file = &code->files.items[call->file];
    struct names_reader reader = names_reader_over(bytes, size);
    struct text name;
    size_t i = 0;
    take_code(file, &reader.answer.code);
    for (; i < call->n && i < file->to_name.n && names_reader_next(&reader, &name); i++)
        name_first(code, file, i,
                   name.at ? keep_text(code, file, name.at, name.size) : CODE_NAME_MISSING);
    if (i == 0 && file->to_name.n > 0) // otherwise the same request would follow for ever
        name_first(code, file, i++, CODE_NAME_MISSING);
    drop_first(file, i);
}

// Returns the file of an answer; NULL if the code is gone or the helper is being freed.
static struct code_file *answered_file(const struct names_call *call, int result)
{
    struct perf_code *code = call->code;
    if (!code)
        return NULL;
    struct code_file *file = &code->files.items[call->file];
    code->n_calls--;
    file->call = NULL;
    return result == -ECANCELED ? NULL : file;
}

static void found(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct names_call *call = userdata;
    struct perf_code *code = call->code;
    struct code_file *file = answered_file(call, result);
    close_fd(fd);
    if (!file) {
        free(call);
        return;
    }
    struct names_root *root = &code->roots.items[file->owner.root - 1];
    if (result == -ESTALE && root->number == call->root)
        root->number = 0;
    else if (result < 0 && result != -ESTALE)
        give_up(code, file);
    else if (result == 0 && call->generation == code->generation)
        take_names(code, call, answer, size);
    free(call);
    perf_code_ask(code);
    code->answered(code->userdata);
}

static void held(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct names_call *call = userdata;
    struct perf_code *code = call->code;
    struct code_file *file = answered_file(call, result);
    close_fd(fd);
    free(call);
    if (!file)
        return;
    struct names_root *root = &code->roots.items[file->owner.root - 1];
    if (result == 0 && size == sizeof(root->number))
        memcpy(&root->number, answer, size);
    else
        give_up(code, file);
    perf_code_ask(code);
}

static size_t write_question(struct perf_code *code, const struct names_call *call, uint8_t *bytes)
{
    const struct code_file *file = &code->files.items[call->file];
    size_t n_path = strlen(file->path);
    struct names_ask ask = {
        .root = call->root,
        .payer = file->owner.payer,
        .uid = file->owner.ids.uid,
        .gid = file->owner.ids.gid,
        .n = call->n,
        .id_size = file->build_id_size,
        .path_size = (uint32_t)n_path,
        .are_offsets = true,
        .needs_id = file->owner.is_guessed,
    };
    memcpy(bytes, &ask, sizeof(ask));
    uint8_t *at = bytes + sizeof(ask);
    for (uint32_t i = 0; i < call->n; i++, at += sizeof(uint64_t))
        memcpy(at, &code->frames.items[file->to_name.items[i]].offset, sizeof(uint64_t));
    memcpy(at, file->build_id, file->build_id_size);
    memcpy(at + file->build_id_size, file->path, n_path);
    return (size_t)(at - bytes) + file->build_id_size + n_path;
}

// Sends the request, and takes over `call`. Returns false if the helper could not be asked.
static bool send_call(struct perf_code *code, struct names_call *call,
                      const struct foreign_ask *ask, foreign_done_fn done)
{
    if (foreign_helper_ask(code->helper, ask, done, call, NULL, NULL) < 0) {
        free(call);
        return false;
    }
    code->files.items[call->file].call = call;
    code->n_calls++;
    return true;
}

static bool file_ask(struct perf_code *code, uint32_t number)
{
    struct code_file *file = &code->files.items[number];
    const struct names_root *root = &code->roots.items[file->owner.root - 1];
    struct names_call *call = memory_malloc(sizeof(*call));
    if (!call)
        return false;
    size_t n = file->to_name.n < NAMES_A_QUESTION ? file->to_name.n : NAMES_A_QUESTION;
    *call = (struct names_call){code, number, (uint32_t)n, root->number, code->generation};
    if (root->number == 0 && file->n_holds++ >= HOLDS_MAX) {
        free(call);
        return false;
    }
    if (root->number == 0) {
        const struct foreign_ask ask = {.job = FOREIGN_NAMES_HOLD,
                                        .payer = file->owner.payer,
                                        .bytes = "",
                                        .fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 0)};
        return send_call(code, call, &ask, held);
    }
    uint8_t bytes[sizeof(struct names_ask) + NAMES_A_QUESTION * sizeof(uint64_t) +
                  ELF_BUILD_ID_MAX + PATH_BYTES];
    const struct foreign_ask ask = {.job = FOREIGN_NAMES_FIND,
                                    .payer = file->owner.payer,
                                    .bytes = bytes,
                                    .size = write_question(code, call, bytes),
                                    .fd = -1,
                                    .time_max = NAMES_TIME};
    return send_call(code, call, &ask, found);
}

void perf_code_ask(struct perf_code *code)
{
    for (uint32_t i = CODE_FIRST; i < code->files.n && code->n_calls < CALLS_MAX; i++) {
        struct code_file *file = &code->files.items[i];
        if (!file->call && file->to_name.n > 0 && !file_ask(code, i))
            give_up(code, file);
    }
}
