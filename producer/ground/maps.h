// SPDX-License-Identifier: Apache-2.0
//
// Reads /proc/PID/maps line by line: the mappings of a process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/ground/line_reader.h"

struct mapping {
    uint64_t start, end; // addresses
    uint64_t offset;     // bytes in the file
    uint32_t major, minor;
    uint64_t inode; // 0: no file
    char permissions[5];
    const char *path; // borrowed from the line, with the kernel's escapes; may be empty
    size_t path_size;
};

// Parses one line without its newline. Returns false for a malformed line.
bool mapping_parse(const char *line, size_t size, struct mapping *ret);

// Writes the path to `text`, terminated, with the kernel's escapes (\012 for a newline) undone.
// Returns false if the path does not fit into `room` bytes or is not absolute ("[heap]",
// "anon_inode:...").
bool mapping_get_path(const struct mapping *mapping, char *text, size_t room);

// `proc` is "/proc" or a folder with the same structure. Returns 0 or a negative errno. The process
// can make this function, and maps_next(), wait as long as it likes. End with line_reader_close().
int maps_open(struct line_reader *reader, const char *proc, int32_t pid);
// Returns 1 with the next mapping, borrowed until the next call; 0 at the end; or a negative errno.
int maps_next(struct line_reader *reader, struct mapping *ret);

// Gets the device and inode that maps has for the file, which `fd` has open for reading. (The
// device is the file system's and can differ from st_dev: btrfs, overlayfs.) This program maps a
// page of the file meanwhile. Returns 0 or a negative errno.
int maps_identify(int fd, dev_t *ret_device, uint64_t *ret_inode);
