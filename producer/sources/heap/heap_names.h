// SPDX-License-Identifier: Apache-2.0
//
// Names of functions of files, each file's symbols read once.
#pragma once

#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "producer/sources/heap/elf_symbols.h"

struct named_file {
    struct elf_symbols symbols;
};
VEC_DEFINE(named_file_vec, struct named_file);

// All zero is an empty cache.
struct heap_names {
    struct strset keys; // path and build id; ids are indexes of files
    struct named_file_vec files;
};

// The function at `rel_pc` of the file at `path` as process `pid` sees it, or NULL. Valid until
// heap_names_done(). Files that are not there have no names.
const char *heap_names_find(struct heap_names *names, const char *proc, int32_t pid,
                            const char *path, const char *build_id, uint32_t build_id_size,
                            uint64_t rel_pc);
void heap_names_done(struct heap_names *names);
