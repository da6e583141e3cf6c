// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/helper_program.h"

#include <fcntl.h>
#include <spawn.h>

#include "producer/ground/self_guard.h"

int helper_program_start(const char *file, char *const *argv, char *const *variables, int fd,
                         int as_fd, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return r;
    r = -posix_spawnattr_init(&attributes);
    if (r < 0) {
        posix_spawn_file_actions_destroy(&actions);
        return r;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    for (int std = 0; std < 3 && r == 0; std++)
        r = -posix_spawn_file_actions_addopen(&actions, std, "/dev/null", O_RDWR, 0);
    if (r == 0 && fd >= 0)
        r = -posix_spawn_file_actions_adddup2(&actions, fd, as_fd);
    if (r == 0)
        r = -posix_spawn(ret, file, &actions, &attributes, argv, variables);
    if (r == 0)
        self_guard_release(*ret);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}
