// SPDX-License-Identifier: Apache-2.0
//
// Writes a profile for pprof (profile.proto, gzipped) as a stream: only texts and functions are
// kept in memory. Samples may refer to locations that are added later, and locations to later
// mappings.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"

struct gzFile_s;

// After the first failure, which stays in `failure`, nothing is written.
struct pprof {
    struct gzFile_s *file; // owned, until pprof_end()
    struct strset texts;
    struct map64 functions; // name and file -> id
    uint8_t *memory;        // owned: the current message
    size_t capacity;
    int failure; // 0 or a negative errno
};

// A label of a sample: a text or a number.
struct pprof_label {
    const char *key, *text; // borrowed; `text` NULL: `number` counts
    int64_t number;
};

// A function at a location. Inlined functions share a location, innermost first.
struct pprof_line {
    uint64_t function; // id from pprof_function()
    int64_t line;      // 0: unknown
};

struct pprof_mapping {
    uint64_t id; // from 1 on
    uint64_t start, limit, file_offset;
    const char *path, *build_id; // borrowed, may be NULL
    bool has_functions, has_files, has_lines, has_inlined;
};

// Begins a profile into `fd`, which the caller keeps. Returns 0 or a negative errno.
int pprof_begin(struct pprof *pprof, int fd);

void pprof_sample_type(struct pprof *pprof, const char *type, const char *unit);
void pprof_default_sample_type(struct pprof *pprof, const char *type);
void pprof_time(struct pprof *pprof, int64_t realtime_ns, int64_t duration_ns);

// Writes a sample. `values`: one for each sample type. `locations`: innermost first.
void pprof_sample(struct pprof *pprof, const int64_t *values, size_t n_values,
                  const uint64_t *locations, size_t n_locations, const struct pprof_label *labels,
                  size_t n_labels);

// Returns the id of a function and writes the function at its first use; 0 on failure. `file` may
// be NULL.
uint64_t pprof_function(struct pprof *pprof, const char *name, const char *file);
void pprof_location(struct pprof *pprof, uint64_t id, uint64_t mapping, uint64_t address,
                    const struct pprof_line *lines, size_t n_lines);
void pprof_mapping(struct pprof *pprof, const struct pprof_mapping *mapping);

// Ends the profile and frees all memory. Returns 0 or the first failure since pprof_begin().
int pprof_end(struct pprof *pprof);
