// SPDX-License-Identifier: Apache-2.0
//
// A temporary folder of a test, and files in it.
#pragma once

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

#define TEMP_FOLDER_MAX 64

static inline void temp_folder_make(char ret[TEMP_FOLDER_MAX])
{
    strcpy(ret, "/tmp/mmtrace-unit-XXXXXX");
    assert_non_null(mkdtemp(ret));
}

static inline int temp_remove_one(const char *path, const struct stat *st, int type,
                                  struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

// Removes a folder with all that is in it. Returns 0 or -1.
static inline int temp_folder_remove(const char *path)
{
    return nftw(path, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// Writes `size` bytes as FOLDER/name; folders are made as needed. An existing file is written in
// place, as the kernel's files change: a reader with the file open sees the new bytes.
static inline void temp_file_write(const char *folder, const char *name, const void *bytes,
                                   size_t size)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s/%s", folder, name);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}
