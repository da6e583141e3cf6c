// SPDX-License-Identifier: Apache-2.0
//
// For LD_PRELOAD: a parser that a hostile file has taken over. When the program reads the first
// bytes of a file, this code tries everything that such a parser could do. A line for each attempt
// says whether it worked. The environment names a file to read and one to write.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, bool worked)
{
    fprintf(stderr, "taken over: %s: %s\n", what, worked ? "worked" : strerror(errno));
}

static bool program_runs(void)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(errno);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return false;
    errno = WEXITSTATUS(status);
    return WIFEXITED(status) && errno == 0;
}

static void everything_try(void)
{
    const char *secret = getenv("TAKEN_OVER_SECRET"), *victim = getenv("TAKEN_OVER_VICTIM");
    struct rlimit data;
    tell("run", program_runs());
    tell("socket", socket(AF_INET, SOCK_STREAM, 0) >= 0);
    tell("signal", kill(getppid(), 0) == 0);
    tell("trace", ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0);
    tell("user", syscall(SYS_setresuid, getuid(), getuid(), getuid()) == 0);
    tell("namespace", syscall(SYS_unshare, 0x10000000) == 0);
    tell("memory", getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur == RLIM_INFINITY);
    if (secret)
        tell("read", open(secret, O_RDONLY | O_CLOEXEC) >= 0);
    if (victim)
        tell("write", open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
}

// A read of at most this size is not the parser's: the program compares these bytes with the first
// bytes of a SQLite database.
#define HEAD_BYTES 16

static void once(size_t size)
{
    static bool done;
    if (done || size <= HEAD_BYTES)
        return;
    done = true;
    everything_try();
}

ssize_t read(int fd, void *buffer, size_t size)
{
    once(size);
    return syscall(SYS_read, fd, buffer, size);
}

// With offsets of 64 bits, this function is pread64().
ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    once(size);
    return syscall(SYS_pread64, fd, buffer, size, offset);
}
