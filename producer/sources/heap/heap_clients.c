// SPDX-License-Identifier: Apache-2.0
//
// The profiles of a recording, and the share of each. A profile that ended stays for later dumps,
// but its share of the running profiles is free again.
#include "producer/sources/heap/heap_source_private.h"

#include <unistd.h>

#include "common/cleanup.h"
#include "producer/ground/proc_text.h"
#include "producer/heap/heap_owner.h"

#define GUARD_PERIOD NSEC_PER_SEC

int heap_clients_take_share(struct heap_source *heap, int32_t pid, struct err *err,
                            struct client_share *ret)
{
    uint64_t payer =
        heap_shares_payer(heap->env.roots->proc, pid, geteuid(), heap_host_is_private(heap->host));
    vec_foreach(&heap->clients, client)
        if ((*client)->ended)
            heap_shares_ended(&heap->shares, &(*client)->share);
    return heap_shares_take(&heap->shares, payer, err, ret);
}

int heap_clients_add(struct heap_source *heap, int32_t pid, int ring_fd, struct heap_client **ret,
                     struct err *err)
{
    struct client_share share = {0};
    int r = heap_clients_take_share(heap, pid, err, &share);
    if (r < 0) {
        if (ring_fd >= 0)
            heap_owner_stop(ring_fd); // it will have no reader
        close_fd(ring_fd);
        return r;
    }
    r = heap_client_new(&heap->settings.ring, pid, ring_fd, ret, err);
    if (r == 0 && (r = heap_client_vec_push(&heap->clients, *ret)) < 0)
        heap_client_free(*ret);
    if (r < 0) {
        heap_shares_gone(&heap->shares, &share);
        return r;
    }
    (*ret)->share = share;
    heap_names_begin(&heap->names, *ret);
    return 0;
}

// Reports the first process that is refused a profile, and counts all.
void heap_clients_tell_refused(struct heap_source *heap, int32_t pid, const char *text)
{
    if (heap->n_refused++ == 0)
        heap_arrivals_tell_problem(heap, pid, text);
}

bool heap_clients_know(const struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && (*client)->is_java == is_java && !(*client)->ended)
            return true;
    return false;
}

bool heap_clients_have_native(const struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->clients, client)
        if ((*client)->pid == pid && !(*client)->is_java && !(*client)->rejected)
            return true;
    return false;
}

bool heap_clients_note_rejected(struct heap_source *heap, int32_t pid, bool is_java)
{
    vec_foreach(&heap->clients, known)
        if ((*known)->rejected && (*known)->pid == pid && (*known)->is_java == is_java)
            return false;
    struct client_share share = {0};
    struct err err = {0};
    if (heap_clients_take_share(heap, pid, &err, &share) < 0) {
        heap_clients_tell_refused(heap, pid, err.text);
        return false;
    }
    struct heap_client *client = heap_client_new_rejected(pid, is_java);
    if (client && heap_client_vec_push(&heap->clients, client) == 0) {
        client->share = share;
        return true;
    }
    heap_client_free(client);
    heap_shares_gone(&heap->shares, &share);
    return true;
}

// Drops the rejection: the process has a profile after all.
void heap_clients_forget_rejected(struct heap_source *heap, int32_t pid, bool is_java)
{
    for (size_t i = 0; i < heap->clients.n; i++) {
        struct heap_client *known = heap->clients.items[i];
        if (!known->rejected || known->pid != pid || known->is_java != is_java)
            continue;
        heap_shares_gone(&heap->shares, &known->share);
        heap_client_free(known);
        heap->clients.items[i--] = heap->clients.items[--heap->clients.n];
    }
}

void heap_clients_log_loss(struct heap_source *heap, const struct heap_client *client)
{
    uint64_t lost = heap_client_lost(client);
    if (heap->loss_logged || lost == 0)
        return;
    log_warning(heap->env.log,
                "linux.heap: process %d: its buffer was full: %llu samples are lost (enlarge "
                "shmem_size_bytes, or set block_client)",
                client->pid, (unsigned long long)lost);
    heap->loss_logged = true;
}

void heap_clients_log_jail(const struct heap_source *heap, const struct heap_client *client)
{
    if (client->ended && atomic_load(&client->ring.header->gone) == HEAP_GONE_JAIL)
        log_info(heap->env.log,
                 "linux.heap: process %d: its profile ends: it enters a seccomp jail, which might "
                 "kill it for the system calls of a profile",
                 client->pid);
}

void heap_clients_log_children(const struct heap_source *heap)
{
    uint64_t n = 0;
    int32_t first = 0;
    vec_foreach(&heap->clients, client) {
        unsigned n_left =
            (*client)->rejected ? 0 : atomic_load(&(*client)->ring.header->n_children_left);
        first = n == 0 ? (*client)->pid : first;
        n += n_left;
    }
    const char *why = heap->settings.children
                          ? "they are children of a program with threads, or did not reach the "
                            "recorder (profile them by name or pid)"
                          : "the config says no_children";
    // Without programs that start later, no child is expected.
    if (n > 0 && heap->settings.startup)
        log_warning(
            heap->env.log,
            "linux.heap: not profiled: %llu children after fork, first a child of process %d: "
            "%s",
            (unsigned long long)n, first, why);
}

void heap_clients_tell_silence(struct heap_source *heap, struct heap_client *client, bool is_last)
{
    const char *why = heap_client_silence(client, is_last);
    if (why && heap->n_silent++ == 0)
        heap_arrivals_tell_problem(heap, client->pid, why);
}

// Returns the KiB of resident memory that is not shared. The rings, which are shared with the
// programs and sized by the config, do not count.
static uint64_t own_memory_kb(void)
{
    char text[256];
    struct span rest = text_file_span(text, sizeof(text), "/proc", "/self/statm");
    uint64_t size = 0, resident = 0, shared = 0;
    if (!span_take_u64(&rest, &size) || !span_take_u64(&rest, &resident) ||
        !span_take_u64(&rest, &shared) || resident < shared)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

void heap_clients_start_guard(struct heap_source *heap)
{
    heap->guard.cpu_start = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
}

static bool is_too_much(struct heap_source *heap, nsec_t now)
{
    const struct heap_settings *settings = &heap->settings;
    struct heap_guard *guard = &heap->guard;
    if (guard->hit || now < guard->due)
        return false;
    guard->due = now + GUARD_PERIOD;
    nsec_t cpu = nsec_now(CLOCK_PROCESS_CPUTIME_ID) - guard->cpu_start;
    guard->hit =
        (settings->max_memory_kb && own_memory_kb() > settings->max_memory_kb) ||
        (settings->max_cpu_secs && (uint64_t)(cpu / NSEC_PER_SEC) >= settings->max_cpu_secs);
    return guard->hit;
}

void heap_clients_check_guard(struct heap_source *heap, nsec_t now)
{
    if (!is_too_much(heap, now))
        return;
    log_warning(heap->env.log, "linux.heap: the recorder needs more than max_heapprofd_memory_kb "
                               "or max_heapprofd_cpu_secs allow: the profile ends");
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            heap_clients_end(heap, *client, false);
}

void heap_clients_look_at(struct heap_source *heap, struct heap_client *client)
{
    nsec_t max = heap_shares_time(&heap->shares, &client->share, heap_host_is_alone(heap->host));
    nsec_t before = nsec_now(CLOCK_THREAD_CPUTIME_ID); // without the time of other processes
    if (max > 0)
        heap_client_look(client, max);
    heap_shares_spend(&heap->shares, &client->share, nsec_now(CLOCK_THREAD_CPUTIME_ID) - before);
}

void heap_clients_end(struct heap_source *heap, struct heap_client *client, bool disconnected)
{
    nsec_t max = heap_shares_time(&heap->shares, &client->share, heap_host_is_alone(heap->host));
    nsec_t before = nsec_now(CLOCK_THREAD_CPUTIME_ID);
    heap_client_end(client, disconnected, max);
    heap_shares_spend(&heap->shares, &client->share, nsec_now(CLOCK_THREAD_CPUTIME_ID) - before);
}
