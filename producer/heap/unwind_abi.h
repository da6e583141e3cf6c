// SPDX-License-Identifier: Apache-2.0
//
// The messages between the recorder and mmunwind, over a socket of type SOCK_SEQPACKET.
#pragma once

#include <stdint.h>

#include "producer/heap/elf_unwind.h"

#define UNWIND_SOCKET_FD     3
#define UNWIND_REGISTERS_MAX 32
#define UNWIND_FRAMES_MAX    256
#define UNWIND_MAPPINGS_MAX  1024
#define UNWIND_MESSAGE_MAX   (64u << 10)
#define UNWIND_FILES_MAX     65536
#define UNWIND_NO_FILE       UINT32_MAX

enum unwind_kind {
    UNWIND_FILE,   // to mmunwind: a struct unwind_file, with a memfd of the tables
    UNWIND_SAMPLE, // to mmunwind: a struct unwind_sample, its mappings, its stack
};

struct unwind_file {
    uint32_t kind, file; // `file`: a number below UNWIND_FILES_MAX
    struct elf_unwind tables;
};

// A piece of a file's code in the process.
struct unwind_mapping {
    uint64_t start, end, offset; // the offset in the file
    uint32_t file, unused;       // UNWIND_NO_FILE: none
};

struct unwind_sample {
    uint32_t kind, n_mappings;
    uint64_t number;                          // the answer repeats the number
    uint64_t space;                           // a hash of the mappings
    uint64_t registers[UNWIND_REGISTERS_MAX]; // in the order of the kernel's perf registers
    uint64_t stack_size;
};

// The place where the walk over a stack ended.
enum unwind_end {
    UNWIND_WHOLE, // to its beginning
    UNWIND_NO_TABLE,
    UNWIND_NO_MEMORY, // the copied part of the stack has ended
    UNWIND_TOO_LONG,
};

struct unwind_answer {
    uint64_t number, cpu_ns; // `cpu_ns`: of this sample
    uint32_t n, end;
    struct unwind_frame {
        uint64_t address; // of the call for all frames but the first
        uint32_t mapping; // number in the sample; UNWIND_NO_FILE: none
        uint32_t unused;
    } frames[UNWIND_FRAMES_MAX]; // innermost first
};
