// SPDX-License-Identifier: Apache-2.0
//
// The code that samples were in: files of code, frames and call stacks. Processes that map the same
// file share its frames. A helper reads names and build ids from the files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log.h"
#include "common/map.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/helper.h"
#include "producer/ground/ids.h"
#include "producer/heap/elf_symbols.h"
#include "producer/sources/heap/names_roots.h"

// Numbers in the place of a file's number.
#define CODE_NOWHERE 0 // code without a file: frames keep their addresses
#define CODE_KERNEL  1 // offsets are numbers of functions (kernel_functions.h)
#define CODE_FIRST   2

// The owner of files. Two owners never share a code_file: a file is read with its owner's rights.
struct code_owner {
    uint32_t root; // index plus one; 0: not known
    struct foreign_ids ids;
    uint64_t payer;
    bool is_guessed; // the process has ended: a file counts if its build id is the mapped file's
};

struct names_call;

struct code_file {
    struct code_owner owner;
    const char *path; // borrowed from the keys
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_size;
    uint64_t load_bias;
    uint64_t start, end, offset; // of the first mapping that was seen
    bool is_done;                // no more can be learned from the file
    struct names_call *call;     // owned by the running request; NULL: none
    uint8_t n_holds;             // how often the helper was given the root for this file
    struct code_frames {
        uint32_t *items;
        size_t n, capacity;
    } to_name;    // frames without an answer; the request has the first of them
    uint64_t iid; // for use by the writer
};

struct code_frame {
    uint32_t file;
    uint32_t name;   // in the texts; CODE_NAME_...
    uint64_t offset; // in the file
    uint64_t iid;    // for use by the writer
};

#define CODE_NAME_MISSING UINT32_MAX
#define CODE_NAME_WAITS   (UINT32_MAX - 1)

struct code_stack {
    uint32_t first, n; // in `stack_frames`, innermost first
    bool is_ready;     // all names that can be found are known
    uint64_t iid;      // for use by the writer
};

VEC_DEFINE(code_file_vec, struct code_file);
VEC_DEFINE(code_frame_vec, struct code_frame);
VEC_DEFINE(code_stack_vec, struct code_stack);
VEC_DEFINE(code_u32_vec, uint32_t);

#define CODE_STACK_NONE UINT32_MAX

// Init with perf_code_init().
struct perf_code {
    struct foreign_helper *helper; // borrowed, as the next members; NULL: no names
    const struct log *log;
    const char *proc;
    void (*answered)(void *userdata); // names have come
    void *userdata;

    struct names_root_vec roots;
    uint32_t own_root;  // of this process
    struct strset keys; // of files: their ids are the places in `files`
    struct code_file_vec files;
    struct strset texts; // names of functions
    struct budget bytes; // memory of `texts`
    struct code_frame_vec frames;
    struct map64 frame_of; // file and offset
    struct code_stack_vec stacks;
    struct code_u32_vec stack_frames;
    struct map64 stack_of; // by a hash of its frames
    uint64_t generation;   // grows when numbers of frames and stacks become invalid
    size_t n_calls;        // requests that run
    bool limit_told, refusal_told;
};

int perf_code_init(struct perf_code *code, struct foreign_helper *helper, const struct log *log,
                   const char *proc);
void perf_code_done(struct perf_code *code);

// Finds the owner with whose rights the files of process `pid` are read. If the process has ended,
// `former` decides: the owner of its files before it executed its program. If the process has ended
// and `former` is NULL, only files that everybody may read are read.
void perf_code_owner(struct perf_code *code, int32_t pid, const struct code_owner *former,
                     struct code_owner *ret);

struct code_mapping {
    const char *path;
    const uint8_t *build_id;
    uint32_t build_id_size; // 0: not known
    uint64_t start, end, offset;
};

// Returns the number of the mapped file; CODE_NOWHERE if the mapping has no file, or if there are
// too many files.
uint32_t perf_code_file(struct perf_code *code, const struct code_owner *owner,
                        const struct code_mapping *mapping);

// Returns the frame at an offset of a file, or CODE_STACK_NONE if memory ran out.
uint32_t perf_code_frame(struct perf_code *code, uint32_t file, uint64_t offset);
// Returns the frame of a function of the kernel, or CODE_STACK_NONE if memory ran out.
uint32_t perf_code_kernel_frame(struct perf_code *code, uint32_t function, const char *name);

// Returns the stack of these frames, innermost first, or CODE_STACK_NONE.
uint32_t perf_code_stack(struct perf_code *code, const uint32_t *frames, size_t n);
// Returns whether all names of the stack's frames that can be found are known.
bool perf_code_is_ready(struct perf_code *code, uint32_t stack);

// Asks for the names of new frames.
void perf_code_ask(struct perf_code *code);

// Returns whether frames and stacks take so much memory that they should be forgotten.
bool perf_code_is_large(const struct perf_code *code);
// Forgets frames and stacks. The numbers of all frames and stacks become invalid.
void perf_code_forget(struct perf_code *code);

const char *perf_code_name(const struct perf_code *code, const struct code_frame *frame); // or NULL
