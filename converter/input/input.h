// SPDX-License-Identifier: Apache-2.0
//
// Where bytes come from: a file, standard input, either of them compressed with gzip.
// Whatever it is, it ends up as one run of bytes in the address space, without being held in
// memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "converter/ground/budget.h"

struct input;

// What may still be inflated of an archive, all that is packed inside of its files included.
struct inflation {
    size_t archive_size; // for people
    uint64_t left;       // bytes that may still be kept
    uint64_t work;       // bytes that may still be inflated, kept or not
};

// All zero is a good default. Everything is borrowed.
struct input_needs {
    // What has to be stored on the way goes there; NULL: the system's place for temporary files.
    const char *spill_folder;
    // When it is used up, reading ends, and the rest counts as damage; NULL: none.
    struct budget *budget;
    // What is inflated counts here, too; NULL: the size of the compressed data alone is the
    // measure.
    struct inflation *inflation;
    // Reading a pipe and inflating may take long. It is asked from time to time, and false ends
    // them with -ECANCELED; NULL: always.
    bool (*goes_on)(void *userdata);
    void *userdata;
};

// `path` "-" is standard input. `needs` may be NULL.
int input_open(const char *path, const struct input_needs *needs, struct err *err,
               struct input **ret);

// For bytes that are in memory already; they are borrowed.
int input_from_memory(const void *bytes, size_t size, struct err *err, struct input **ret);

// Whatever `read` gives until it returns 0; a negative errno of it, with a text, ends it.
int input_from_reader(const struct input_needs *needs,
                      ssize_t (*read)(void *source, void *buffer, size_t size, struct err *err),
                      void *source, struct err *err, struct input **ret);

// Bytes that `size` compressed ones may become before that is taken for an attack.
static inline uint64_t input_inflated_max(uint64_t size)
{
    return ((uint64_t)1 << 30) + (size < UINT64_MAX / 512 ? size * 256 : UINT64_MAX / 2);
}

// Counts `n` inflated bytes. 0, or -EFBIG with text: the archive inflates to far too much.
int inflation_take(struct inflation *inflation, uint64_t n, struct err *err);

// What people call it; input_open() names it by its path.
const char *input_name(const struct input *input);
int input_set_name(struct input *input, const char *name); // 0 or -ENOMEM

const uint8_t *input_bytes(const struct input *input);
size_t input_size(const struct input *input);

// What was wrong with the compressed data, or NULL; input_bytes() has all that could be read
// before.
const char *input_damage(const struct input *input);

// Which limit ended reading, if one did; input_damage() says so, too.
enum budget_limit input_stopped(const struct input *input);

// What it was opened with; NULL: none.
struct budget *input_budget(const struct input *input);

// Takes the pages out of this process's memory; they come back when they are read.
void input_forget(const struct input *input);

// How much of files this process has in memory; SIZE_MAX: not known.
size_t input_resident_bytes(void);

struct input *input_free(struct input *input);
