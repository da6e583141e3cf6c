// SPDX-License-Identifier: Apache-2.0
//
// A malformed ring ends its client's profile (buffer_corrupted). The ring of an ended process is
// read to its end and kept until the recording stops, so its profile is in every dump.
//
// A free that finds no room in the ring would leave its sample alive for ever. After losses the
// book is therefore compared with the client's table: before each dump, and between dumps during a
// limited part of the time.
#include "producer/sources/heap/heap_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/unix_socket.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/process_life.h"

#define RECORDS_A_LOOK (1u << 18)
#define LOOK_MAX       (200 * NSEC_PER_MSEC)
#define LAST_LOOK_MAX  (2 * NSEC_PER_SEC)
#define TIME_STRIDE    64 // records between two looks at the clock
#define LOOKS_AT_END   16
#define SILENCE_MAX    (2 * NSEC_PER_SEC)
#define RECONCILE_REST 20 // pause between two comparisons, in multiples of the time of one

static void leave_socket(struct heap_client *client)
{
    if (client->foreign)
        foreign_close_socket(client->foreign, client->socket_fd);
    else
        close_fd(client->socket_fd);
    client->socket_fd = -1;
}

struct heap_client *heap_client_free(struct heap_client *client)
{
    if (!client)
        return NULL;
    heap_names_forget(client);
    close_fd(client->pidfd);
    leave_socket(client);
    ring_reader_done(&client->ring);
    heap_book_done(&client->book);
    for (size_t i = 0; i < HEAP_HEAPS_MAX; i++)
        if (client->heaps[i]) {
            heap_book_done(&client->heaps[i]->book);
            free(client->heaps[i]);
        }
    free(client);
    return NULL;
}

int heap_client_new(const struct ring_options *options, int32_t pid, int ring_fd,
                    struct heap_client **ret, struct err *err)
{
    struct heap_client *client = memory_calloc(1, sizeof(*client));
    if (!client) {
        close_fd(ring_fd);
        return -ENOMEM;
    }
    *client = (struct heap_client){
        .pid = pid,
        .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
        .socket_fd = -1,
        .start_coarse = nsec_now(CLOCK_MONOTONIC_COARSE),
        .from_startup = ring_fd < 0,
    };
    client->book.room = &client->room;
    int r = ring_fd < 0 ? ring_reader_new(options, &client->ring, err)
                        : ring_reader_over(ring_fd, options, &client->ring, err);
    if (r < 0)
        heap_client_free(client);
    else
        *ret = client;
    return r;
}

static int make_java_heap(struct heap_client *client, uint64_t interval_bytes)
{
    struct client_heap *heap = memory_calloc(1, sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    memcpy(heap->name, HEAP_JAVA_NAME, sizeof(HEAP_JAVA_NAME));
    heap->interval_bytes = interval_bytes;
    heap->book.has_methods = true;
    heap->book.room = &client->room;
    client->heaps[HEAP_JAVA] = heap;
    return 0;
}

int heap_client_new_java(const struct heap_settings *settings, int32_t pid, int *socket_fd,
                         struct heap_client **ret, struct err *err)
{
    struct heap_client *client;
    struct ring_options options = {
        .bytes = settings->ring.bytes,
        .n_wanted = 1,
        .wanted = {{HEAP_JAVA_NAME, settings->java_interval_bytes}},
        .is_numbered = true,
    };
    int r = heap_client_new(&options, pid, -1, &client, err);
    if (r < 0)
        return r;
    client->is_java = true;
    client->from_startup = false;
    r = make_java_heap(client, settings->java_interval_bytes);
    if (r == 0)
        r = unix_socket_send(*socket_fd, "", 1, client->ring.fd, MSG_DONTWAIT);
    if (r < 0) {
        heap_client_free(client);
        return r;
    }
    client->socket_fd = steal_fd(socket_fd);
    *ret = client;
    return 0;
}

struct heap_client *heap_client_new_rejected(int32_t pid, bool is_java)
{
    struct heap_client *client = memory_calloc(1, sizeof(*client));
    if (!client)
        return NULL;
    *client = (struct heap_client){
        .pid = pid,
        .pidfd = -1,
        .socket_fd = -1,
        .is_java = is_java,
        .ring = {.fd = -1},
        .start_coarse = nsec_now(CLOCK_MONOTONIC_COARSE),
        .ended = true,
        .rejected = true,
    };
    return client;
}

bool heap_client_has_exited(const struct heap_client *client)
{
    struct pollfd poll_fd = {.fd = client->pidfd, .events = POLLIN};
    struct process_life life;
    if (client->pidfd < 0)
        return process_life_in_time("/proc", client->pid, &life) == 0
                   ? life.ended
                   : kill(client->pid, 0) < 0 && errno == ESRCH;
    return poll(&poll_fd, 1, 0) == 1;
}

static int add_heap(struct heap_client *client, const struct ring_record *record)
{
    struct client_heap **place = &client->heaps[record->heap];
    if (*place)
        return 0; // reported twice
    if (!(*place = memory_calloc(1, sizeof(**place))))
        return -ENOMEM;
    memcpy((*place)->name, record->named->name, sizeof((*place)->name));
    (*place)->interval_bytes = record->named->interval_bytes;
    (*place)->book.room = &client->room;
    return heap_book_copy_mappings(&(*place)->book, &client->book);
}

static int add_sample(struct heap_client *client, const struct ring_record *record)
{
    struct client_heap *heap = client->heaps[record->heap];
    if (!heap && (record->heap > 0 || client->is_java))
        return 0; // never reported
    if (heap)
        heap->n_samples += record->kind == HEAP_ALLOC;
    if (!heap || client->is_java)
        client->n_samples += record->kind == HEAP_ALLOC;
    return heap_book_add(heap ? &heap->book : &client->book, record);
}

static int add_code(struct heap_client *client, const struct ring_record *record)
{
    int r = heap_book_add(&client->book, record);
    for (size_t i = 0; i < HEAP_HEAPS_MAX && r == 0; i++)
        if (client->heaps[i])
            r = heap_book_add(&client->heaps[i]->book, record);
    return r;
}

static int take_java_record(struct heap_client *client, const struct ring_record *record)
{
    if (record->kind == HEAP_METHOD)
        return heap_book_add(&client->heaps[HEAP_JAVA]->book, record);
    return record->kind == HEAP_ALLOC || record->kind == HEAP_FREE ? add_sample(client, record) : 0;
}

static int take_record(struct heap_client *client, const struct ring_record *record)
{
    if (client->is_java)
        return take_java_record(client, record);
    switch (record->kind) {
    case HEAP_ARENAS:
        malloc_info_keep(&client->malloc_info, record->arenas, nsec_now(CLOCK_BOOTTIME));
        return 0;
    case HEAP_HEAP:
        return add_heap(client, record);
    case HEAP_ALLOC:
    case HEAP_FREE:
        return add_sample(client, record);
    default:
        return add_code(client, record);
    }
}

static void read_records(struct heap_client *client, bool is_last, nsec_t until)
{
    struct ring_record record;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    // An ended process may have left its ring to other processes, which write on.
    uint64_t n_max = is_last ? client->ring.bytes / HEAP_RECORD_ALIGN : RECORDS_A_LOOK;
    nsec_t end = now + (is_last ? LAST_LOOK_MAX : LOOK_MAX);
    end = until < end ? until : end;
    for (uint64_t n = 0; n < n_max && ring_reader_next(&client->ring, now, is_last, &record); n++) {
        client->n_failed += take_record(client, &record) < 0;
        if (n % TIME_STRIDE == 0 && nsec_now(CLOCK_MONOTONIC) > end)
            break;
    }
}

// Reads records. If it reads all, it has read the samples of all frees lost so far.
static void drain(struct heap_client *client, bool is_last, nsec_t until)
{
    const struct heap_header *header = client->ring.header;
    uint64_t n = atomic_load(&header->n_lost_frees), end = atomic_load(&header->write_pos);
    read_records(client, is_last, until);
    if (client->ring.pos >= end || is_last)
        client->n_lost_frees = n + client->ring.n_skipped;
}

static bool is_live(void *userdata, uint64_t address)
{
    return ring_reader_is_live(userdata, address);
}

static void reconcile(struct heap_client *client, bool at_once, bool is_last)
{
    uint64_t n = client->n_lost_frees;
    nsec_t before = nsec_now(CLOCK_MONOTONIC);
    if (!is_last && (n == client->n_settled || (before < client->reconcile_due && !at_once)))
        return;
    int r = heap_book_reconcile(&client->book, is_live, &client->ring);
    for (size_t i = 0; i < HEAP_HEAPS_MAX && r == 0; i++)
        if (client->heaps[i])
            r = heap_book_reconcile(&client->heaps[i]->book, is_live, &client->ring);
    if (r == 0)
        client->n_settled = n;
    nsec_t after = nsec_now(CLOCK_MONOTONIC);
    client->reconcile_due = after + RECONCILE_REST * (after - before);
}

static nsec_t until_of(nsec_t max)
{
    return max == NSEC_MAX ? NSEC_MAX : nsec_now(CLOCK_MONOTONIC) + max;
}

// Does not wait for records that the threads of a live process are just writing.
void heap_client_end(struct heap_client *client, bool disconnected, nsec_t max)
{
    nsec_t until = until_of(max);
    ring_reader_stop(&client->ring);
    bool exited = heap_client_has_exited(client); // perhaps killed in the middle of a free
    uint64_t end = atomic_load(&client->ring.header->write_pos);
    drain(client, exited, until);
    for (int i = 0; i < LOOKS_AT_END && !exited && client->ring.pos < end; i++)
        drain(client, false, until);
    reconcile(client, true, exited);
    ring_reader_release(&client->ring);
    client->pidfd = close_fd(client->pidfd);
    leave_socket(client);
    client->ended = true;
    client->disconnected = disconnected || exited;
    // The ring of a process with hooks stays open, because it reports their removal.
    if (client->disconnected)
        ring_reader_close(&client->ring);
}

bool heap_client_has_begun(const struct heap_client *client)
{
    return !client->rejected &&
           (!client->is_sent || atomic_load(&client->ring.header->write_pos) != 0);
}

const char *heap_client_silence(struct heap_client *client, bool is_last)
{
    if (!client->is_awaited)
        return NULL;
    client->is_awaited = !heap_client_has_begun(client);
    bool is_late =
        client->ended || nsec_now(CLOCK_MONOTONIC_COARSE) - client->start_coarse >= SILENCE_MAX;
    if (!client->is_awaited || !(is_last || is_late))
        return NULL;
    client->is_awaited = false;
    return is_late ? "it asked for a profile but did not begin one: its " HEAP_LIBRARY_FILE
                     " may be of another version (restart the process)"
                   : HEAP_ENDED_EARLY;
}

void heap_client_look(struct heap_client *client, nsec_t max)
{
    bool exited = heap_client_has_exited(client);
    ring_reader_beat(&client->ring);
    drain(client, false, until_of(max));
    reconcile(client, false, false);
    if (exited || client->ring.corrupted || atomic_load(&client->ring.header->gone) != 0)
        heap_client_end(client, true, max);
}

bool heap_client_has_left(const struct heap_client *client)
{
    return client->rejected || client->is_java || client->from_startup || client->disconnected ||
           atomic_load(&client->ring.header->gone) != 0;
}

uint64_t heap_client_lost(const struct heap_client *client)
{
    const struct heap_header *header = client->ring.header;
    if (client->rejected)
        return 0;
    uint64_t n_dropped = client->book.n_dropped;
    for (size_t i = 0; i < HEAP_HEAPS_MAX; i++)
        if (client->heaps[i])
            n_dropped += client->heaps[i]->book.n_dropped;
    return atomic_load(&header->n_lost_allocs) + client->ring.n_skipped + n_dropped;
}

static struct profile_process describe_malloc(struct heap_client *client,
                                              const struct heap_settings *settings)
{
    struct heap_header *header = client->ring.header;
    return (struct profile_process){
        .book = &client->book,
        .heap_name = HEAP_MALLOC_NAME,
        .pid = client->pid,
        .interval_bytes = atomic_load(&header->interval_bytes),
        .orig_interval_bytes =
            settings->ring.adaptive_free_bytes ? settings->ring.interval_bytes : 0,
        .from_startup = client->from_startup,
        .disconnected = client->disconnected,
        .buffer_overran = heap_client_lost(client) > 0,
        .buffer_corrupted = client->ring.corrupted,
        .hit_timeout = atomic_load(&header->hit_timeout) != 0,
        .n_samples = client->n_samples,
        .n_unwind_errors = atomic_load(&header->n_unwind_errors),
        .n_lost_allocs = atomic_load(&header->n_lost_allocs),
        .n_lost_frees = atomic_load(&header->n_lost_frees),
        .lost_bytes = atomic_load(&header->lost_bytes),
        .owed_bytes = atomic_load(&header->owed_bytes),
        .names_refused = client->names.is_refused,
        .unwind_us = atomic_load(&header->unwind_ns) / 1000,
        .blocked_us = atomic_load(&header->blocked_us),
        .unwind_buckets = (const uint32_t *)header->unwind_buckets,
        .start_coarse = client->start_coarse,
    };
}

static uint64_t doubled(const struct heap_client *client, uint64_t interval)
{
    uint32_t n = atomic_load(&client->ring.header->n_doublings);
    return n < 32 ? interval << n : interval;
}

size_t heap_client_describe(struct heap_client *client, const struct heap_settings *settings,
                            bool hit_guardrail, struct profile_process *ret)
{
    size_t n = 0;
    if (client->rejected) {
        ret[0] = (struct profile_process){
            .book = &client->book,
            .heap_name = client->is_java ? HEAP_JAVA_NAME : HEAP_MALLOC_NAME,
            .pid = client->pid,
            .interval_bytes =
                client->is_java ? settings->java_interval_bytes : settings->ring.interval_bytes,
            .rejected_concurrent = true,
            .start_coarse = client->start_coarse,
        };
        return 1;
    }
    if (!client->ended)
        reconcile(client, true, false);
    struct profile_process process = describe_malloc(client, settings);
    process.hit_guardrail = hit_guardrail;
    if (settings->ring.interval_bytes && !client->is_java)
        ret[n++] = process;
    for (size_t i = 0; i < HEAP_HEAPS_MAX; i++) {
        struct client_heap *heap = client->heaps[i];
        if (!heap || !heap->interval_bytes)
            continue;
        ret[n] = process;
        ret[n].book = &heap->book;
        ret[n].heap_name = heap->name;
        ret[n].n_samples = heap->n_samples;
        ret[n].interval_bytes = doubled(client, heap->interval_bytes);
        ret[n].orig_interval_bytes =
            process.orig_interval_bytes && !client->is_java ? heap->interval_bytes : 0;
        ret[n].is_further = n > 0;
        n++;
    }
    return n;
}
