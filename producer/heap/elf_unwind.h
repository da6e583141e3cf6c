// SPDX-License-Identifier: Apache-2.0
//
// The unwind tables of one 64-bit ELF file: .eh_frame with its sorted index. The file is untrusted
// input: all sizes are bounded, and nothing stays mapped.
#pragma once

#include <stdint.h>

struct elf_unwind {
    uint64_t load_bias;   // as in struct elf_code
    uint64_t start, size; // addresses of the copied bytes, as in the symbol table
    uint64_t index;       // address of the index
    uint64_t index_size;  // bytes of the index
    uint64_t low, high;   // addresses of all that the file maps
};

#define ELF_UNWIND_MAX (UINT64_C(64) << 20)

// Copies the tables to the start of `to_fd` (borrowed, as `fd`). Returns 0 or a negative errno:
// -ENOENT if the file has no index, -EFBIG if the tables take more than ELF_UNWIND_MAX bytes.
int elf_unwind_copy(int fd, int to_fd, struct elf_unwind *ret);
