// SPDX-License-Identifier: Apache-2.0
//
// Programs and VMs that ask for a profile themselves, at the sockets of the host. A process that
// asks again (it has executed another program) gets a new profile.
#include "producer/sources/heap/heap_source_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/requester.h"

#define CMDLINE_MAX 4096
#define STAT_MAX    1024

void heap_arrivals_tell(struct heap_source *heap, const char *format, ...)
{
    char text[sizeof(heap->problem)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_warning(heap->env.log, "%s", text);
    if (!heap->problem[0])
        memcpy(heap->problem, text, sizeof(text));
}

void heap_arrivals_tell_problem(struct heap_source *heap, int32_t pid, const char *why)
{
    heap_arrivals_tell(heap, "linux.heap: process %d is not profiled: %s", pid, why);
}

void heap_arrivals_tell_no_java(struct heap_source *heap, int32_t pid, const char *why)
{
    heap_arrivals_tell(heap, "linux.heap: no Java heap of process %d: %s", pid, why);
}

void heap_arrivals_tell_left(struct heap_source *heap, int32_t pid, bool is_java)
{
    if (!heap_clients_know(heap, pid, is_java) && heap->n_left++ == 0)
        heap_arrivals_tell_problem(heap, pid, HEAP_ENDED_EARLY);
}

bool heap_arrivals_may_profile(struct heap_source *heap, int32_t pid)
{
    char why[64];
    if (requester_may_trace(heap->env.requester, heap->env.roots->proc, pid))
        return true;
    snprintf(why, sizeof(why), "user %u, who asked for the recording, may not trace it",
             (unsigned)heap->env.requester->uid);
    heap_arrivals_tell_problem(heap, pid, why);
    return false;
}

static int32_t parent_of(const char *proc, int32_t pid)
{
    char text[STAT_MAX];
    unsigned long long parent = 0;
    process_file_span(text, sizeof(text), proc, pid, "stat");
    const char *name_end = strrchr(text, ')');
    return name_end && sscanf(name_end + 1, " %*c %llu", &parent) == 1 && parent <= INT32_MAX
               ? (int32_t)parent
               : 0;
}

// Returns whether the process with this command line is a child after fork of a profiled process.
// The command line of a child that executes another program differs.
static bool is_child_of_profiled(const struct heap_source *heap, int32_t pid, const char *cmdline)
{
    char text[CMDLINE_MAX];
    int32_t parent = heap->settings.children ? parent_of(heap->env.roots->proc, pid) : 0;
    if (parent == 0 || !heap_clients_have_native(heap, parent))
        return false;
    process_file_span(text, sizeof(text), heap->env.roots->proc, parent, "cmdline");
    return *cmdline && str_eq(text, cmdline);
}

bool heap_arrivals_wants(struct heap_source *heap, int32_t pid)
{
    char text[CMDLINE_MAX];
    process_file_span(text, sizeof(text), heap->env.roots->proc, pid, "cmdline");
    return !heap->guard.hit &&
           (heap_settings_match(&heap->settings, pid, text) ||
            is_child_of_profiled(heap, pid, text)) &&
           heap_arrivals_may_profile(heap, pid);
}

// Notes that another recording has a profile of the process, and reports this once.
static void note_taken(struct heap_source *heap, int32_t pid, bool is_java)
{
    if (!heap_clients_note_rejected(heap, pid, is_java))
        return;
    if (is_java)
        heap_arrivals_tell_no_java(heap, pid, HEAP_TAKEN);
    else
        heap_arrivals_tell_problem(heap, pid, HEAP_TAKEN);
}

// Ends the profile of the process's former program.
static void end_former(struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && (*client)->is_java == is_java && !(*client)->ended)
            heap_clients_end(heap, *client, true);
}

void heap_arrivals_publish(struct heap_source *heap, int32_t pid)
{
    if (!heap->env.pids)
        return;
    pid_feed_publish(heap->env.pids, pid);
    pid_feed_profiled(heap->env.pids, pid);
}

// Sends a ring to the process that asks over `fd`. Returns 0 or a negative errno.
int heap_arrivals_welcome(struct heap_source *heap, int32_t pid, int fd, bool from_startup)
{
    struct heap_client *client = NULL;
    struct err err = {0};
    int r = heap_clients_add(heap, pid, -1, &client, &err);
    if (r == 0) {
        client->from_startup = from_startup;
        client->is_sent = client->is_awaited = true;
        r = unix_socket_send(fd, "", 1, client->ring.fd, MSG_DONTWAIT);
    }
    if (r == -EDQUOT)
        heap_clients_tell_refused(heap, pid, err.text);
    else if (r == -EPIPE && client) {
        client->is_awaited = false;
        heap_arrivals_tell_problem(heap, pid,
                                   "it ended, or went on without a profile because the machine was "
                                   "too busy to answer it in time");
    } else if (r < 0)
        heap_arrivals_tell_problem(heap, pid, err.text[0] ? err.text : strerror(-r));
    else {
        // A process that asks at its start may have executed another program, and have a new name.
        if (from_startup && heap->env.pids)
            pid_feed_forget(heap->env.pids, pid, true);
        heap_arrivals_publish(heap, pid);
    }
    return r;
}

bool heap_arrivals_program(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken)
{
    struct heap_source *heap = userdata;
    (void)uid;
    end_former(heap, pid, false);
    if (!heap_arrivals_wants(heap, pid))
        return false;
    if (taken) {
        note_taken(heap, pid, false);
        return false;
    }
    return heap_arrivals_welcome(heap, pid, *fd, true) == 0;
}

bool heap_arrivals_ran_before(const struct heap_source *heap, int32_t pid)
{
    // The kernel rounds the start of a process down to a tick.
    nsec_t tick = NSEC_PER_SEC / sysconf(_SC_CLK_TCK);
    return heap_targets_began(heap->env.roots->proc, pid) + tick <= heap->started;
}

// Returns whether the config does not want the process, because it ran before the recording or
// began later. Every process at a recording's own socket is wanted.
static bool is_of_another_time(const struct heap_source *heap, int32_t pid)
{
    const struct heap_settings *settings = &heap->settings;
    if ((settings->running && settings->startup) || heap_host_is_private(heap->host))
        return false;
    return heap_arrivals_ran_before(heap, pid) ? !settings->running : !settings->startup;
}

// Called when a VM asks, at its start or later.
bool heap_arrivals_vm(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken)
{
    struct heap_source *heap = userdata;
    struct heap_client *client = NULL;
    struct client_share share = {0};
    struct err err = {0};
    (void)uid;
    end_former(heap, pid, true);
    if (!heap_arrivals_wants(heap, pid) || is_of_another_time(heap, pid))
        return false;
    if (taken) {
        note_taken(heap, pid, true);
        return false;
    }
    int r = heap_clients_take_share(heap, pid, &err, &share);
    if (r == -EDQUOT) {
        heap_clients_tell_refused(heap, pid, err.text);
        return false;
    }
    r = heap_client_new_java(&heap->settings, pid, fd, &client, &err);
    if (r == 0 && (r = heap_client_vec_push(&heap->clients, client)) < 0)
        heap_client_free(client);
    if (r < 0) {
        heap_shares_gone(&heap->shares, &share);
        heap_arrivals_tell_no_java(heap, pid, err.text[0] ? err.text : strerror(-r));
        return false;
    }
    client->share = share;
    client->foreign = heap->env.roots->foreign;
    heap_clients_forget_rejected(heap, pid, true);
    heap_vms_forget(heap, pid);
    heap_arrivals_publish(heap, pid);
    return true;
}

bool heap_arrivals_vm_is_left(const struct heap_source *heap, int32_t pid)
{
    return heap_clients_know(heap, pid, true) || is_of_another_time(heap, pid) ||
           !requester_may_trace(heap->env.requester, heap->env.roots->proc, pid);
}
