// SPDX-License-Identifier: Apache-2.0
//
// Working files in a folder beside the output. A complete working file takes the output's name.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/file.h"

// Returns the folder of `path`. The caller frees the result. Returns NULL if memory ran out.
char *folder_of(const char *path);

// The folder of working files. All zero: no folder.
struct working_folder {
    char *path; // owned
    int fd;     // owned if `path` is set; locked, so that others see that the folder is in use
};

// Makes a folder beside `output`, and removes the folders of killed processes there. Returns 0 or a
// negative errno with text.
int working_folder_make(const char *output, struct err *err, struct working_folder *ret);

// Returns true if `name` is the name of a working folder beside a file `output`. Neither has a
// slash.
bool working_folder_is_name(const char *name, const char *output);

// Removes the folder with its files, and working folders in the folder.
void working_folder_remove(struct working_folder *folder);

// Makes an empty file in the folder. The path *ret, which the caller frees, leads to the file while
// the folder is open, even if the folder gets another name. Returns 0 or a negative errno with
// text.
int working_file_make(const struct working_folder *folder, const char *name, struct err *err,
                      char **ret);

// The place of an output. The folder is held by a descriptor, so the owner of the folder cannot put
// a link in its place meanwhile.
struct output_place {
    struct path_end end;
    char *path;        // owned; leads to the output through the descriptor, if /proc is mounted
    const char *shown; // borrowed; the name of the output for persons
};

// Refuses an output with a link of another user in its path. `follows_last`: the last part may be a
// link, too, and is not replaced. Returns 0 or a negative errno with text. Release *ret in any
// case.
int output_place_find(const char *output, bool follows_last, struct output_place *ret,
                      struct err *err);

// Replaces `path` at the start of the text by the name for persons. Returns `r`.
int output_place_error(const struct output_place *place, int r, struct err *err);

void output_place_done(struct output_place *place);

// Returns the size of a file in bytes; 0 if the file is missing.
uint64_t file_size(const char *path);

// Returns true if a journal is beside the database, or if memory ran out.
bool has_journal(const char *database);

// Gives the file `working` the name of `output`, and the permissions of an existing `output`.
// `sync`: writes the data to the disk first. A database with a journal beside it is rewritten in
// place. Returns 0 or a negative errno with text; -EBUSY if another program keeps the database
// locked.
int working_file_publish(const char *working, const char *output, bool sync, struct err *err);
