// SPDX-License-Identifier: Apache-2.0
//
// mmjava-attach PID LIBRARY OPTIONS: loads the agent into a Java VM for a recorder, whose loop goes
// on meanwhile. The recorder gets the answer over the socket that is descriptor 3
// (producer/heap/attach_abi.h). SIGTERM, or the recorder's death, ends the current wait: the
// program gives up and cleans up.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "producer/heap/attach_abi.h"
#include "producer/heap/vm_attach.h"

static void pass(int number)
{
    (void)number;
}

// Signals arrive only during the waits.
static void signals_keep(sigset_t *ret_waiting)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, NULL, ret_waiting);
    sigdelset(ret_waiting, SIGTERM);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = pass}, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct attach_answer answer = {0};
    sigset_t waiting;
    if (argc != 4) {
        fprintf(stderr, "mmjava-attach: for mmtrace's own use\n");
        return 2;
    }
    signals_keep(&waiting);
    answer.result =
        vm_attach_load((pid_t)strtol(argv[1], NULL, 10), argv[2], argv[3], &waiting, &err);
    snprintf(answer.text, sizeof(answer.text), "%.*s", (int)sizeof(answer.text) - 1, err.text);
    send(ATTACH_SOCKET_FD, &answer, sizeof(answer), MSG_NOSIGNAL);
    return answer.result < 0;
}
