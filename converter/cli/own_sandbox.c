// SPDX-License-Identifier: Apache-2.0
//
// If a hostile file takes over the parser, the process can run no programs, cannot reach the
// network or other processes, and can write only to the folders of the output and of temporary
// files. The paths are taken from the command line, so inputs and outputs may be in any folder. The
// cache of traces has the answers about other files, so the cache can only be read.
//
// The prompt runs the user's pager. The pager may need any file, so the sandbox of the prompt
// guards no files.
#include "converter/cli/own_sandbox.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/say.h"
#include "converter/cli/working_file.h"
#include "converter/ground/budget.h"
#include "converter/ground/spill.h"

// For the C library, SQLite, and the size of the available memory.
static const char *const system_reads[] = {
    "/proc/self",   "/proc/meminfo", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/dev/null",
    "/dev/urandom", "/dev/random",   "/etc/localtime", "/usr/share/zoneinfo",
};
// SQLite's folders for temporary files, if the environment names none.
static const char *const temporary_folders[] = {"/var/tmp", "/usr/tmp", "/tmp"};

__attribute__((format(printf, 2, 3))) static const char *make(struct own_sandbox *sandbox,
                                                              const char *format, ...)
{
    char *path = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&path, format, args);
    va_end(args);
    if (n >= 0 && made_vec_push(&sandbox->made, path) == 0)
        return path;
    if (n >= 0)
        free(path);
    sandbox->failed = true;
    return NULL;
}

static void read_add(struct own_sandbox *sandbox, const char *path)
{
    sandbox->failed |= path && sandbox_path_vec_push(&sandbox->paths.reads, path) < 0;
}

static void write_add(struct own_sandbox *sandbox, const char *path)
{
    sandbox->failed |= path && sandbox_path_vec_push(&sandbox->paths.writes, path) < 0;
}

static const char *folder_make_of(struct own_sandbox *sandbox, const char *path)
{
    CLEANUP(freep) char *folder = folder_of(path);
    if (folder)
        return make(sandbox, "%s", folder);
    sandbox->failed = true;
    return NULL;
}

void own_sandbox_input(struct own_sandbox *sandbox, const char *path)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal", ".times"};
    if (!path || str_eq(path, "-"))
        return;
    for (size_t i = 0; i < ELEMENTS(beside); i++) {
        CLEANUP(strbuf_done) struct strbuf file = {0};
        strbuf_addf(&file, "%s%s", path, beside[i]);
        if (file.failed)
            sandbox->failed = true;
        else if (access(file.text, F_OK) == 0)
            read_add(sandbox, make(sandbox, "%s", file.text));
        if (!file.failed && str_eq(beside[i], "-wal") && access(file.text, F_OK) == 0)
            write_add(sandbox, folder_make_of(sandbox, path));
    }
}

void own_sandbox_output(struct own_sandbox *sandbox, const char *path)
{
    struct stat st;
    if (!path || str_eq(path, "-"))
        return;
    write_add(sandbox, folder_make_of(sandbox, path));
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        write_add(sandbox, make(sandbox, "%s", path)); // a pipe, a device
    CLEANUP(freep) char *target = realpath(path, NULL);
    if (target)
        write_add(sandbox, folder_make_of(sandbox, target));
}

void own_sandbox_cache(struct own_sandbox *sandbox, struct trace_cache *cache)
{
    if (!cache->folder)
        return;
    trace_cache_start(cache);
    read_add(sandbox, make(sandbox, "%s", cache->folder));
    if (cache->keeper.pid)
        write_add(sandbox, make(sandbox, "%s", cache->keeper.place.path));
}

static bool is_usable(const char *folder)
{
    return folder && *folder && access(folder, W_OK | X_OK) == 0;
}

static void temporary_add(struct own_sandbox *sandbox)
{
    const char *sqlite = getenv("SQLITE_TMPDIR"), *own = getenv("TMPDIR");
    write_add(sandbox, sqlite);
    write_add(sandbox, own);
    for (size_t i = 0; i < ELEMENTS(temporary_folders); i++)
        if (!is_usable(sqlite) && !is_usable(own)) // SQLite tries these folders next
            write_add(sandbox, temporary_folders[i]);
    write_add(sandbox, temporary_folder(NULL));
}

static int files_guard(struct own_sandbox *sandbox)
{
    for (size_t i = 0; i < ELEMENTS(system_reads); i++)
        read_add(sandbox, system_reads[i]);
    temporary_add(sandbox);
    if (sandbox->reads_all)
        read_add(sandbox, "/");
    return sandbox->failed ? -ENOMEM : sandbox_files(&sandbox->paths);
}

static void sandbox_done(struct own_sandbox *sandbox)
{
    vec_foreach(&sandbox->made, path)
        free(*path);
    made_vec_done(&sandbox->made);
    sandbox_path_vec_done(&sandbox->paths.reads);
    sandbox_path_vec_done(&sandbox->paths.writes);
    *sandbox = (struct own_sandbox){0};
}

bool own_sandbox_enter(struct own_sandbox *sandbox)
{
    int r = 0;
    if (sandbox_is_wanted()) {
        uint64_t available = sandbox->bounds_data ? memory_available() : UINT64_MAX;
        if (!sandbox->writes_all)
            r = files_guard(sandbox);
        if (sandbox->bounds_data && available != UINT64_MAX)
            sandbox_data(available / 2 + BUDGET_MEMORY_OWN);
        if (r == 0 || sandbox_is_unavailable(r))
            r = sandbox_calls(sandbox->runs_programs ? SANDBOX_RUNS_PROGRAMS : 0);
    }
    sandbox_done(sandbox);
    if (r == 0 || sandbox_is_unavailable(r))
        return true;
    say("the sandbox cannot be entered: %s (MMTRACE_SANDBOX=off runs without it)", strerror(-r));
    return false;
}
