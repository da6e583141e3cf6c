// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a file or of standard input, which may be compressed with gzip, zstd or xz. The
// bytes are one range of the address space, and are not held in memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "converter/ground/budget.h"

struct input;
struct spill;

// The bytes that may still be inflated from an archive, including compressed data in its entries.
struct inflation {
    size_t archive_size; // for people
    uint64_t left;       // bytes that may still be kept
    uint64_t work;       // bytes that may still be inflated, kept or not
};

// All zero is the default. All pointers are borrowed.
struct input_needs {
    // Folder for temporary files; NULL: the system's folder.
    const char *spill_folder;
    // When the budget is used up, reading ends, and the rest counts as damage; NULL: no limit.
    struct budget *budget;
    // Counts inflated bytes; NULL: only the size of the compressed data limits inflated bytes.
    struct inflation *inflation;
    // Called from time to time while a pipe is read or data is inflated; false ends the work with
    // -ECANCELED. NULL: always true.
    bool (*goes_on)(void *userdata);
    void *userdata;
};

// Opens an input. `path` "-" is standard input. `needs` may be NULL. Returns 0 or a negative errno
// with text.
int input_open(const char *path, const struct input_needs *needs, struct err *err,
               struct input **ret);

// Makes an input of bytes in memory, which are borrowed. Returns 0 or a negative errno with text.
int input_from_memory(const void *bytes, size_t size, struct err *err, struct input **ret);

// Makes an input of all bytes that `read` gives until `read` returns 0. A negative errno of `read`,
// with text, is returned.
int input_from_reader(const struct input_needs *needs,
                      ssize_t (*read)(void *source, void *buffer, size_t size, struct err *err),
                      void *source, struct err *err, struct input **ret);

// Returns the number of bytes that `size` compressed bytes may become; more bytes are an attack.
static inline uint64_t input_inflated_max(uint64_t size)
{
    return ((uint64_t)1 << 30) + (size < UINT64_MAX / 512 ? size * 256 : UINT64_MAX / 2);
}

// Counts `n` inflated bytes. Returns 0, or -EFBIG with text if the archive inflates to more than
// its limit.
int inflation_take(struct inflation *inflation, uint64_t n, struct err *err);

// Returns the name for messages; input_open() sets the path.
const char *input_name(const struct input *input);
int input_set_name(struct input *input, const char *name); // 0 or -ENOMEM

const uint8_t *input_bytes(const struct input *input);
size_t input_size(const struct input *input);

// Returns the damage of the compressed data as a text, or NULL. input_bytes() has the bytes before
// the damage.
const char *input_damage(const struct input *input);

// Returns the size of the bytes before they were unpacked.
size_t input_packed_size(const struct input *input);

// Returns the limit that ended reading, or BUDGET_LASTS; input_damage() has the text.
enum budget_limit input_stopped(const struct input *input);

// Returns the budget of the input; NULL: none.
struct budget *input_budget(const struct input *input);

// Returns the type of the file before its conversion to packets, for the metadata: "proto",
// "systrace".
const char *input_type(const struct input *input);

// Returns the size of the file before its conversion to packets.
size_t input_file_size(const struct input *input);

// Replaces the bytes by the bytes of a spill. A successful call moves the spill into the input.
// `type` is static. Returns 0 or a negative errno with text.
int input_replace(struct input *input, struct spill *spill, const char *type, struct err *err);

// Returns a text about the bytes that does not mean damage; NULL: none. input_set_remark() copies
// the text, cut to 159 bytes.
const char *input_remark(const struct input *input);
void input_set_remark(struct input *input, const char *text);

// Sets the text of input_damage(), unless a text is set already.
void input_note_damage(struct input *input, const char *text);

// Removes the pages from this process's memory; a read maps them again.
void input_forget(const struct input *input);

// Returns the bytes of files that this process has in memory; SIZE_MAX: unknown.
size_t input_resident_bytes(void);

struct input *input_free(struct input *input);
