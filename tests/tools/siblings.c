// SPDX-License-Identifier: Apache-2.0
//
// A profiled program with two children, one of them hostile, for tests of the heap profiler:
//
//     siblings SOCKET UID
//
// The first child gives up its rights, listens at SOCKET, and writes this name into the memory that
// it shares with its parent: children after fork shall ask there for a profile. After that, the
// second child begins, keeps its rights and allocates. At the end the first child says "came" if
// somebody connected to SOCKET, else "nobody". Neither child allocates before SOCKET exists.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/heap/heap_abi.h"

static void *volatile sink;

static void allocate(void)
{
    for (int i = 0; i < 1000; i++)
        sink = malloc(10000);
}

static struct heap_header *shared_header(void)
{
    char line[512];
    uint64_t start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && start == 0 && fgets(line, sizeof(line), maps))
        if (strstr(line, "/memfd:" HEAP_RING_NAME " "))
            sscanf(line, "%" SCNx64, &start);
    if (maps)
        fclose(maps);
    return (struct heap_header *)(uintptr_t)start;
}

static int be_hostile(struct heap_header *header, const char *path, uid_t uid, int told_fd,
                      int tell_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    char byte;
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, 0777) < 0 ||
        listen(fd, 4) < 0)
        return 1;
    strncpy(header->children_ask, path, sizeof(header->children_ask) - 1);
    if (write(tell_fd, "x", 1) != 1 || read(told_fd, &byte, 1) != 0)
        return 1;
    const char *text = accept(fd, NULL, NULL) < 0 ? "nobody\n" : "came\n";
    return write(STDOUT_FILENO, text, strlen(text)) < 0;
}

int main(int argc, char **argv)
{
    int ready[2], end[2], first, second;
    char byte;
    allocate();
    struct heap_header *header = shared_header();
    if (argc != 3 || !header || pipe(ready) < 0 || pipe(end) < 0)
        return 2;
    uid_t uid = (uid_t)atoi(argv[2]);
    pid_t pid = fork();
    if (pid == 0) {
        close(end[1]);
        _exit(be_hostile(header, argv[1], uid, end[0], ready[1]));
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    pid_t other = fork();
    if (other == 0) {
        allocate();
        _exit(0);
    }
    waitpid(other, &second, 0);
    close(end[1]);
    waitpid(pid, &first, 0);
    return first || second;
}
