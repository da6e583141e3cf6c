// SPDX-License-Identifier: Apache-2.0
//
// Rows of numbers, collected by group and read back group by group. A row takes a few bytes,
// because it is stored as differences from the row before in its group. Full chunks of rows go to a
// temporary file.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/spill.h"

#define GROUP_LOG_COLUMNS_MAX 5

struct log_group {
    uint8_t *open;     // owned: the last chunk
    uint32_t n_open;   // bytes
    uint32_t capacity; // of `open`
    uint64_t chunk;    // offset + 1 of the chunk before, in the file; 0: none
    uint64_t n_chunks; // in the file
    uint64_t n;        // rows
    int64_t last[GROUP_LOG_COLUMNS_MAX];
    bool unsorted;  // for the user: set if rows of the group did not come in order
    uint32_t place; // for the user
};

// A log with only n_columns set is empty.
struct group_log {
    size_t n_columns;
    struct log_group *groups; // owned, by number
    size_t n_groups, n_allocated;
    size_t n_memory;       // bytes of all open chunks
    struct spill chunks;   // valid if `is_open`
    uint8_t *buffer;       // owned: bytes for the file
    size_t n_buffered;     // bytes
    const uint8_t *mapped; // of the file, after group_log_close()
    bool is_open;
    struct budget *budget; // borrowed; NULL: none
};

// Returns the group. Adds a missing group. Returns NULL if memory ran out.
struct log_group *group_log_group(struct group_log *log, uint32_t number);

// Adds a row to a group of the log. `folder`: for the file. Returns 0 or a negative errno.
int group_log_add(struct group_log *log, const char *folder, struct log_group *group,
                  const int64_t *columns);

// Lets readers read the rows that were added before. Rows may be added afterwards. Returns 0 or a
// negative errno.
int group_log_settle(struct group_log *log);

// Removes the rows of a group.
void group_log_clear(struct log_group *group);

// Ends the addition of rows. Must be called between the last group_log_add() and the first
// group_reader_open(). Returns 0 or a negative errno.
int group_log_close(struct group_log *log);

// Reads the rows of one group in the order of arrival.
struct group_reader {
    const struct group_log *log;
    const struct log_group *group;
    uint64_t *chunks; // owned: offsets of the group's chunks
    uint64_t i;       // the next chunk
    const uint8_t *pos, *end;
    int64_t row[GROUP_LOG_COLUMNS_MAX];
};

// Opens a reader of the group. Returns 0 or -ENOMEM.
int group_reader_open(struct group_reader *reader, const struct group_log *log, uint32_t number);

// Reads the next row into reader->row. Returns false at the end.
bool group_reader_next(struct group_reader *reader);
void group_reader_done(struct group_reader *reader); // fit for CLEANUP()

// Removes the file's pages from this process's memory. A later read maps them again.
void group_log_forget(const struct group_log *log);
void group_log_done(struct group_log *log);
