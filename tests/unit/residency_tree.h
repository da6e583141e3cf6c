// SPDX-License-Identifier: Apache-2.0
//
// A temporary tree of files, and sets of its files, for the tests of residency.
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/residency/file_set.h"
#include "tests/unit/temp_folder.h"

static char root[PATH_MAX];

static inline void make_file(const char *name, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.2000s/%.2000s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
}

static inline void write_text(const char *name, const char *text, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.2000s/%.2000s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static inline void make_dir(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.2000s/%.2000s", root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static char *path_of(const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", root, name) > 0);
    return path;
}

static inline int setup(void **state)
{
    (void)state;
    assert_non_null(getcwd(root, sizeof(root) - 40));
    strcat(root, "/residency_files.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    return temp_folder_remove(root);
}

// Scans, also if other programs change mounts meanwhile.
static inline void scan_whole(struct file_set *set)
{
    int r;
    while ((r = file_set_scan(set, NSEC_MAX)) == FILE_SET_E_AGAIN)
        nanosleep(&(struct timespec){.tv_nsec = NSEC_PER_MSEC}, NULL);
    assert_int_equal(r, 0);
}

static inline struct file_set *scan(const struct file_set_options *options)
{
    struct file_set *set;
    assert_int_equal(file_set_new(options, &set, NULL), 0);
    scan_whole(set);
    return set;
}

static inline bool has(const struct file_set *set, const char *name)
{
    CLEANUP(freep) char *path = path_of(name);
    vec_foreach(file_set_files(set), file)
        if (str_eq((*file)->path, path) && !(*file)->gone)
            return true;
    return false;
}

// Runs `check` in a process of its own, whose limits and mounts it changes. `check` returns the
// number of the comparison that failed, or 0; or -1 without the right to check, as this function
// does.
static inline int check_in_a_child(int (*check)(char *path, char *other), char *path, char *other)
{
    int status;
    process_files_end(); // the child starts a thread of its own
    pid_t child = fork();
    if (child == 0)
        _exit(check(path, other));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0xff)
        return -1;
    assert_int_equal(status, 0);
    return 0;
}
