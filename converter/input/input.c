// SPDX-License-Identifier: Apache-2.0
//
// A trace is not in order of time, so a conversion reads the trace back and forth, and all bytes
// must stay accessible. A regular file is mapped. Pipes and compressed data are first written to an
// unnamed file, which is then mapped.
//
// If a mapped file is truncated, an access to the missing pages kills the process. Finished traces
// are not truncated, and a copy of every trace would cost too much.
#include "converter/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "converter/ground/spill.h"
#include "converter/input/kinds.h"
#include "converter/input/unpack.h"

#define CHUNK_SIZE  ((size_t)64 * 1024)
#define DAMAGE_SIZE 160
#define ASK_MS      200

#define FORGET_SIZE ((size_t)16 << 20)
#define LAYERS_MAX  4

struct input {
    struct input_needs needs;
    const uint8_t *bytes;
    size_t size;
    void *map; // owned; NULL: `bytes` are elsewhere
    size_t map_size;
    struct spill spill;
    const char *type;         // static; NULL: packets
    size_t file_size;         // before the bytes were replaced
    size_t packed_size;       // before the bytes were unpacked
    uint64_t unpacked_max;    // bytes that the compressed data may become
    char *name;               // owned; NULL: none
    char damage[DAMAGE_SIZE]; // empty: none
    char remark[DAMAGE_SIZE]; // empty: none
    enum budget_limit stopped;
};

DEFINE_CLEANUP(input_freep, struct input, input_free);

static bool input_goes_on(const struct input *input)
{
    return !input->needs.goes_on || input->needs.goes_on(input->needs.userdata);
}

// Returns true if the budget is used up, and sets input->damage. The rest is then left out.
static bool is_stopped(struct input *input, const char *what, size_t n_bytes)
{
    char text[DAMAGE_SIZE / 2];
    if (!input->stopped)
        input->stopped = budget_check(input->needs.budget, BUDGET_INPUT);
    if (!input->stopped)
        return false;
    snprintf(input->damage, sizeof(input->damage), "%s: reading ended after %zu bytes of %s",
             budget_text(input->needs.budget, input->stopped, text, sizeof(text)), n_bytes, what);
    return true;
}

int inflation_take(struct inflation *inflation, uint64_t n, struct err *err)
{
    bool is_much = n > inflation->left || n > inflation->work;
    inflation->work -= n > inflation->work ? inflation->work : n;
    if (is_much) {
        err_set(err, -EFBIG, "it inflates to far more than an archive of %zu bytes should hold",
                inflation->archive_size);
        return err_hint(err, -EFBIG, "unpack it yourself if you trust it");
    }
    inflation->left -= n;
    return 0;
}

static int file_map(struct input *input, int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    input->map = map;
    input->map_size = size;
    input->bytes = map;
    input->size = size;
    return 0;
}

static int pipe_copy(struct input *input, int fd, const char *name, struct err *err)
{
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK_SIZE);
    if (!chunk)
        return err_errno(err, -ENOMEM, "%s", name);
    for (;;) {
        if (!input_goes_on(input))
            return -ECANCELED;
        // poll() has a timeout, because a signal between this check and read() would go unnoticed.
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int n_ready = poll(&wait, 1, ASK_MS);
        if (n_ready == 0 || (n_ready < 0 && errno == EINTR))
            continue;
        ssize_t n = read(fd, chunk, CHUNK_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "%s", name);
        if (n == 0)
            break;
        int r = spill_append(&input->spill, chunk, (size_t)n, err);
        if (r < 0)
            return r;
        if (is_stopped(input, "the stream", input->spill.size))
            break;
    }
    input->size = input->spill.size;
    return spill_finish(&input->spill, &input->bytes, err);
}

// Work on one compressed input: `from` moves to `end`.
struct unpacking {
    struct input *input;
    const struct kind *kind;
    const struct codec *codec;
    void *state; // of the codec; NULL: no stream is open
    struct spill *to;
    uint8_t *chunk;
    const uint8_t *from, *end;
    size_t since_forget;
};

// Appends the `n` bytes that a step unpacked, within the limits. A limit that ends the work sets
// input->damage.
static int unpacked_keep(struct unpacking *work, size_t n, struct err *err)
{
    struct input *input = work->input;
    int r = 0;
    if (input->needs.inflation)
        r = inflation_take(input->needs.inflation, n, err);
    if (r == 0)
        r = input_goes_on(input) ? spill_append(work->to, work->chunk, n, err) : -ECANCELED;
    if (r < 0)
        return r;
    if (work->to->size > input->unpacked_max)
        snprintf(input->damage, sizeof(input->damage),
                 "inflates to more than 1 GiB and 256 times its size: unpack it, if you trust it");
    else
        is_stopped(input, "inflated data", work->to->size);
    if (work->since_forget >= FORGET_SIZE) {
        input_forget(input);
        work->since_forget = 0;
    }
    return 0;
}

// Unpacks one stream. Damage ends the work; the bytes before are kept.
static int stream_unpack(struct unpacking *work, enum unpack_state *ret, struct err *err)
{
    enum unpack_state state = UNPACK_MORE;
    int r = 0;
    work->state = work->codec->open();
    if (!work->state)
        return err_errno(err, -ENOMEM, "%s", work->kind->name);
    while (r == 0 && state == UNPACK_MORE && !*work->input->damage) {
        size_t available = (size_t)(work->end - work->from);
        struct unpack_step step = {
            .in = work->from,
            .in_end = work->from + (available < CHUNK_SIZE ? available : CHUNK_SIZE),
            .out = work->chunk,
            .out_end = work->chunk + CHUNK_SIZE,
        };
        state = work->codec->step(work->state, &step);
        work->since_forget += (size_t)(step.in - work->from);
        work->from = step.in;
        r = unpacked_keep(work, (size_t)(step.out - work->chunk), err);
    }
    work->codec->close(STEAL(work->state));
    *ret = state;
    return r == 0 && state == UNPACK_NO_MEMORY ? err_errno(err, -ENOMEM, "%s", work->kind->name)
                                               : r;
}

static void unpack_damage(struct unpacking *work, enum unpack_state state)
{
    struct input *input = work->input;
    const char *name = work->kind->name;
    size_t at = (size_t)(work->from - input->bytes);
    while (state == UNPACK_END && work->from < work->end && !*work->from)
        work->from++;
    if (state == UNPACK_TOO_LARGE)
        snprintf(input->damage, sizeof(input->damage),
                 "the %s data needs more than 128 MiB of memory: unpack it first", name);
    else if (state != UNPACK_END)
        snprintf(input->damage, sizeof(input->damage), "%s data ends or breaks at offset %zu: %s",
                 name, at, state == UNPACK_BAD ? "corrupt" : "truncated");
    else if (work->from < work->end)
        snprintf(input->damage, sizeof(input->damage),
                 "the %zu bytes from offset %zu on, after the %s data, are not %s data",
                 (size_t)(work->end - work->from), (size_t)(work->from - input->bytes), name, name);
}

// Unpacks all streams of the input, which stand one after the other. Bytes after the last stream
// are damage, unless they are zeros.
static int input_unpack(struct input *input, const struct kind *kind, struct spill *to,
                        struct err *err)
{
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK_SIZE);
    struct unpacking work = {
        .input = input,
        .kind = kind,
        .codec = codec_of(kind->id),
        .to = to,
        .chunk = chunk,
        .from = input->bytes,
        .end = input->bytes + input->size,
    };
    enum unpack_state state;
    int r;
    if (!chunk)
        return err_errno(err, -ENOMEM, "%s", kind->name);
    do
        r = stream_unpack(&work, &state, err);
    while (r == 0 && state == UNPACK_END && !*input->damage &&
           kind_recognise(work.from, (size_t)(work.end - work.from)) == kind);
    if (r == 0 && !*input->damage)
        unpack_damage(&work, state);
    return r;
}

static int spill_begin(const struct input *input, struct spill *spill, struct err *err)
{
    int r = spill_init(spill, input->needs.spill_folder, err);
    spill->budget = input->needs.budget;
    return r;
}

static void bytes_replace(struct input *input, const struct spill *spill, const uint8_t *bytes)
{
    if (input->map)
        munmap(input->map, input->map_size);
    input->map = NULL;
    spill_done(&input->spill);
    input->spill = *spill;
    input->bytes = bytes;
    input->size = spill->size;
}

static int layer_replace(struct input *input, const struct kind *kind, struct err *err)
{
    struct spill unpacked;
    if (!codec_of(kind->id)) {
        err_set(err, -EOPNOTSUPP, "%s data, and this mmsql is built without its library",
                kind->name);
        return err_hint(err, -EOPNOTSUPP, "unpack it first");
    }
    int r = spill_begin(input, &unpacked, err);
    const uint8_t *bytes = NULL;
    if (r == 0)
        r = input_unpack(input, kind, &unpacked, err);
    if (r == 0)
        r = spill_finish(&unpacked, &bytes, err);
    if (r < 0) {
        spill_done(&unpacked);
        return r;
    }
    bytes_replace(input, &unpacked, bytes);
    return 0;
}

// Unpacks compressed data, and compressed data in the unpacked data. The limit of all layers
// depends on the size of the first layer.
static int layers_replace(struct input *input, struct err *err)
{
    int r = 0;
    input->packed_size = input->size;
    input->unpacked_max = input_inflated_max(input->size);
    for (size_t i = 0; i < LAYERS_MAX && r == 0 && !*input->damage; i++) {
        const struct kind *kind = kind_recognise(input->bytes, input->size);
        if (!kind || kind->role != ROLE_COMPRESSED)
            break;
        r = layer_replace(input, kind, err);
    }
    return r;
}

int input_open(const char *path, const struct input_needs *needs, struct err *err,
               struct input **ret)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    CLEANUP(input_freep) struct input *input = calloc(1, sizeof(*input));
    if (!input)
        return err_errno(err, -ENOMEM, "%s", name);
    if (needs)
        input->needs = *needs;
    int r = spill_begin(input, &input->spill, err);
    if (r < 0)
        return r;
    CLEANUP(close_fdp)
    int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", name);
    if (S_ISDIR(st.st_mode))
        return err_errno(err, -EISDIR, "%s", name);
    bool at_start = lseek(fd, 0, SEEK_CUR) == 0;
    if (!S_ISREG(st.st_mode) || !at_start || !st.st_size || file_map(input, fd, (size_t)st.st_size))
        r = pipe_copy(input, fd, name, err);
    if (r == 0) {
        r = layers_replace(input, err);
        if (r == -EOPNOTSUPP)
            return err_prefix(err, r, "%s", name);
    }
    if (r == 0 && input_set_name(input, name) < 0)
        r = err_errno(err, -ENOMEM, "%s", name);
    if (r < 0)
        return r == -EDQUOT ? err_prefix(err, r, "%s", name) : r;
    *ret = STEAL(input);
    return 0;
}

int input_from_reader(const struct input_needs *needs,
                      ssize_t (*read)(void *source, void *buffer, size_t size, struct err *err),
                      void *source, struct err *err, struct input **ret)
{
    CLEANUP(input_freep) struct input *input = calloc(1, sizeof(*input));
    CLEANUP(freep) uint8_t *chunk = malloc(CHUNK_SIZE);
    if (!input || !chunk)
        return err_errno(err, -ENOMEM, "input");
    if (needs)
        input->needs = *needs;
    int r = spill_begin(input, &input->spill, err);
    while (r == 0 && !is_stopped(input, "inflated data", input->spill.size)) {
        ssize_t n = input_goes_on(input) ? read(source, chunk, CHUNK_SIZE, err) : -ECANCELED;
        if (n <= 0) {
            r = (int)n;
            break;
        }
        r = spill_append(&input->spill, chunk, (size_t)n, err);
    }
    if (r == 0)
        r = spill_finish(&input->spill, &input->bytes, err);
    input->size = input->spill.size;
    if (r == 0)
        r = layers_replace(input, err);
    input->needs.inflation = NULL; // all bytes are inflated; the caller may free the archive
    if (r == 0)
        *ret = STEAL(input);
    return r;
}

int input_from_memory(const void *bytes, size_t size, struct err *err, struct input **ret)
{
    CLEANUP(input_freep) struct input *input = calloc(1, sizeof(*input));
    if (!input)
        return err_errno(err, -ENOMEM, "input");
    int r = spill_init(&input->spill, NULL, err);
    if (r < 0)
        return r;
    input->bytes = bytes;
    input->size = size;
    r = layers_replace(input, err);
    if (r == 0)
        *ret = STEAL(input);
    return r;
}

const char *input_name(const struct input *input)
{
    return input->name ? input->name : "";
}

int input_set_name(struct input *input, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    free(input->name);
    input->name = copy;
    return 0;
}

const uint8_t *input_bytes(const struct input *input)
{
    return input->bytes;
}

size_t input_size(const struct input *input)
{
    return input->size;
}

enum budget_limit input_stopped(const struct input *input)
{
    return input->stopped;
}

struct budget *input_budget(const struct input *input)
{
    return input->needs.budget;
}

const char *input_damage(const struct input *input)
{
    return *input->damage ? input->damage : NULL;
}

const char *input_type(const struct input *input)
{
    return input->type ? input->type : "proto";
}

size_t input_file_size(const struct input *input)
{
    return input->type ? input->file_size : input->size;
}

int input_replace(struct input *input, struct spill *spill, const char *type, struct err *err)
{
    const uint8_t *bytes = NULL;
    int r = spill_finish(spill, &bytes, err);
    if (r < 0)
        return r;
    input->type = type;
    input->file_size = input->size;
    bytes_replace(input, spill, bytes);
    return 0;
}

const char *input_remark(const struct input *input)
{
    return *input->remark ? input->remark : NULL;
}

void input_set_remark(struct input *input, const char *text)
{
    snprintf(input->remark, sizeof(input->remark), "%s", text);
}

void input_note_damage(struct input *input, const char *text)
{
    if (!*input->damage)
        snprintf(input->damage, sizeof(input->damage), "%s", text);
}

size_t input_packed_size(const struct input *input)
{
    return input->packed_size;
}

void input_forget(const struct input *input)
{
    if (input->map)
        madvise(input->map, input->map_size, MADV_DONTNEED);
    spill_forget(&input->spill);
}

struct input *input_free(struct input *input)
{
    if (!input)
        return NULL;
    int saved = errno;
    if (input->map)
        munmap(input->map, input->map_size);
    spill_done(&input->spill);
    free(input->name);
    free(input);
    errno = saved;
    return NULL;
}

size_t input_resident_bytes(void)
{
    CLEANUP(fclosep) FILE *file = fopen("/proc/self/statm", "re");
    unsigned long n_pages;
    if (!file || fscanf(file, "%*u %*u %lu", &n_pages) != 1)
        return SIZE_MAX;
    return n_pages * (size_t)sysconf(_SC_PAGESIZE);
}
