// SPDX-License-Identifier: Apache-2.0
//
// mmsql's own messages go to standard error unchanged: mmsql knows the cause.
#include "producer/pintool/mmsql_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/str.h"

extern char **environ;

// Returns whether this program's folder has the program `relative`, and makes its path in `path`,
// which has room for PATH_MAX bytes.
static bool find_beside(const char *relative, char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n <= 0)
        return false;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    size_t room = slash ? (size_t)(path + PATH_MAX - slash) : 0;
    return slash && snprintf(slash, room, "/%s", relative) < (int)room && access(path, X_OK) == 0;
}

static int start(const struct mmsql *mmsql, const char *const *args, int out, pid_t *ret,
                 struct err *err)
{
    char path[PATH_MAX];
    const char *program = mmsql->program;
    if (!program)
        program = find_beside("mmsql", path) || find_beside("../../converter/mmsql", path)
                      ? path
                      : "mmsql";
    const char *argv[8] = {program};
    for (size_t i = 0; args[i] && i < 6; i++)
        argv[i + 1] = args[i];
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);
    if (r == 0 && out >= 0)
        r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawnp(ret, program, &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r == 0)
        return 0;
    err_errno(err, -r, "%s", program);
    return err_hint(err, -r,
                    "mmsql reads the recording; name it with --mmsql if it is not in PATH");
}

static int finish(pid_t pid, struct err *err)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "mmsql");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, -EIO, "mmsql could not read the recording");
}

int mmsql_convert(const struct mmsql *mmsql, const char *trace, struct err *err)
{
    const char *const args[] = {"convert", "-q", "-o", mmsql->db, "--", trace, NULL};
    pid_t pid;
    int r = start(mmsql, args, -1, &pid, err);
    return r < 0 ? r : finish(pid, err);
}

static void parse(char *line, struct mmsql_row *ret)
{
    *ret = (struct mmsql_row){0};
    line[strcspn(line, "\r\n")] = 0;
    for (char *field = line; field && ret->n < MMSQL_COLUMNS_MAX;) {
        char *comma = strchr(field, ',');
        if (comma)
            *comma++ = 0;
        ret->texts[ret->n] = field;
        if (str_parse_i64(field, &ret->values[ret->n]) < 0)
            ret->values[ret->n] = 0;
        ret->n++;
        field = comma;
    }
}

static int read_rows(FILE *in, int (*row)(void *userdata, const struct mmsql_row *row),
                     void *userdata)
{
    CLEANUP(freep) char *line = NULL;
    size_t room = 0;
    for (bool head = true; getline(&line, &room, in) > 0; head = false) {
        struct mmsql_row parsed;
        if (head)
            continue;
        parse(line, &parsed);
        int r = row(userdata, &parsed);
        if (r < 0)
            return r;
    }
    return ferror(in) ? -EIO : 0;
}

int mmsql_query(const struct mmsql *mmsql, const char *sql,
                int (*row)(void *userdata, const struct mmsql_row *row), void *userdata,
                struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    CLEANUP(fclosep) FILE *in = fdopen(ends[0], "r");
    if (!in) {
        close(ends[0]);
        close(ends[1]);
        return err_errno(err, -ENOMEM, "mmsql");
    }
    const char *const args[] = {"query", "--csv", mmsql->db, sql, NULL};
    pid_t pid;
    int r = start(mmsql, args, ends[1], &pid, err);
    close(ends[1]);
    if (r < 0)
        return r;
    r = read_rows(in, row, userdata);
    fclosep(&in); // mmsql gets SIGPIPE instead of writing for ever
    int ended = finish(pid, err);
    if (r < 0)
        return err_errno(err, r, "mmsql");
    return ended;
}
