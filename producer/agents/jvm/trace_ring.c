// SPDX-License-Identifier: Apache-2.0
//
// The connection stays open during the profile. The recorder's end closes when the recorder ends
// the profile, and also when the recorder dies for any reason. The ring is used only under the
// lock, so that it can be unmapped at once.
//
// A full ring loses samples, which are counted. A name that found no room is sent with the next
// sample of its method. An eighth of the ring is reserved for frees.
#include "producer/agents/jvm/trace_ring.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/agents/jvm/byte_table.h"
#include "producer/heap/recorder.h"
#include "producer/heap/ring_writer.h"
#include "producer/heap/sample_table.h"

#define FREE_RESERVE 8 // part of the ring
#define METHODS_MAX  (1u << 20)

struct trace_ring {
    pthread_mutex_t lock;
    int socket_fd;                 // -1: no profile
    struct ring_writer ring;       // header NULL: no profile
    uint64_t profile;              // counts profiles
    struct address_table *samples; // owned; NULL: no profile
    struct byte_table methods;     // of this profile, by sample_frame
    uint64_t last_method;          // of this profile
    uint64_t last_number, first_number;
};

struct trace_ring *trace_ring_new(void)
{
    struct trace_ring *ring = calloc(1, sizeof(*ring));
    if (!ring)
        return NULL;
    pthread_mutex_init(&ring->lock, NULL);
    ring->socket_fd = -1;
    return ring;
}

static uint64_t interval_of(const struct heap_header *header)
{
    for (uint32_t i = 0; i < header->n_wanted && i < HEAP_WANTED_MAX; i++)
        if (strncmp(header->wanted[i].name, HEAP_JAVA_NAME, HEAP_NAME_BYTES) == 0)
            return header->wanted[i].interval_bytes;
    return 0;
}

static int ring_map(int fd, struct ring_writer *ret, uint32_t *ret_shift,
                    uint64_t *ret_interval_bytes)
{
    struct heap_header header;
    int r = recorder_check(fd, &header);
    if (r < 0)
        return r;
    if (interval_of(&header) == 0)
        return -EPROTO;
    void *memory =
        mmap(NULL, HEAP_MEMORY_BYTES(header.ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    *ret = (struct ring_writer){
        .header = memory,
        .memory = (uint8_t *)memory + HEAP_HEADER_BYTES,
        .bytes = header.ring_bytes,
    };
    *ret_shift = header.table_shift;
    *ret_interval_bytes = interval_of(&header);
    return 0;
}

int trace_ring_connect(struct trace_ring *ring, const char *socket, uint64_t *ret_interval_bytes)
{
    struct ring_writer writer;
    uint32_t table_shift;
    int fd = recorder_connect(socket, true);
    if (fd < 0)
        return fd;
    int ring_fd = recorder_receive(fd, recorder_wait_max(socket));
    int r = ring_fd < 0 ? ring_fd : ring_map(ring_fd, &writer, &table_shift, ret_interval_bytes);
    if (ring_fd >= 0)
        close(ring_fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    trace_ring_disconnect(ring);
    struct address_table *samples = calloc(1, sizeof(*samples));
    if (!samples) {
        munmap(writer.header, HEAP_MEMORY_BYTES(writer.bytes));
        close(fd);
        return -ENOMEM;
    }
    samples->slots = (table_slot *)(writer.memory + writer.bytes);
    samples->shift = table_shift;
    pthread_mutex_lock(&ring->lock);
    ring->samples = samples;
    ring->last_method = 0;
    ring->first_number = ring->last_number + 1;
    ring->ring = writer;
    ring->socket_fd = fd;
    ring->profile++;
    pthread_mutex_unlock(&ring->lock);
    return 0;
}

bool trace_ring_wait(struct trace_ring *ring, int wake_fd)
{
    // Only the waiting thread, or the thread that wakes it, disconnects.
    pthread_mutex_lock(&ring->lock);
    struct pollfd fds[] = {{.fd = ring->socket_fd}, {.fd = wake_fd, .events = POLLIN}};
    pthread_mutex_unlock(&ring->lock);
    if (fds[0].fd < 0)
        return true;
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    return fds[0].revents != 0;
}

// Slow work is done without the lock: the VM may stand still and wait for the lock.
void trace_ring_disconnect(struct trace_ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    struct ring_writer writer = ring->ring;
    struct address_table *samples = ring->samples;
    struct byte_table methods = ring->methods;
    int fd = ring->socket_fd;
    ring->ring = (struct ring_writer){0};
    ring->samples = NULL;
    ring->methods = (struct byte_table){0};
    ring->socket_fd = -1;
    pthread_mutex_unlock(&ring->lock);
    if (writer.header) {
        atomic_store(&writer.header->gone, 1);
        munmap(writer.header, HEAP_MEMORY_BYTES(writer.bytes));
        close(fd);
    }
    free(samples);
    byte_table_clear(&methods);
}

// Called with the lock.

static bool method_define(struct trace_ring *ring, const struct sample_frame *frame,
                          const char *name, size_t size, uint64_t *ret)
{
    struct heap_method *record = ring_reserve(&ring->ring, HEAP_METHOD, sizeof(*record) + size,
                                              ring->ring.bytes / FREE_RESERVE);
    if (!record)
        return false;
    record->number = *ret = ++ring->last_method;
    record->name_size = (uint32_t)size;
    record->unused = 0;
    memcpy(record + 1, name, size);
    ring_commit(record);
    return byte_table_add(&ring->methods, frame, sizeof(*frame), *ret) != NULL;
}

// Returns false if there is no room, or if another profile began while the name was made.
static bool method_find(struct trace_ring *ring, const struct sample_frame *frame,
                        sample_frame_fn name, void *userdata, uint64_t *ret)
{
    char text[HEAP_METHOD_MAX];
    uint64_t profile = ring->profile;
    const struct byte_entry *known = byte_table_find(&ring->methods, frame, sizeof(*frame));
    *ret = known ? known->number : 0;
    if (known || ring->last_method >= METHODS_MAX)
        return true;
    pthread_mutex_unlock(&ring->lock);
    size_t size = name(userdata, frame, text, sizeof(text));
    pthread_mutex_lock(&ring->lock);
    if (profile != ring->profile || !ring->ring.header)
        return false;
    known = byte_table_find(&ring->methods, frame, sizeof(*frame));
    *ret = known ? known->number : 0;
    return known || method_define(ring, frame, text, size, ret);
}

static bool sample_put(struct trace_ring *ring, const uint64_t *methods, size_t n, uint64_t number,
                       uint64_t weight)
{
    // The number is added before the record, and removed before the record of the free: a missing
    // number is not alive.
    if (!table_add(ring->samples, number))
        return false;
    size_t size = n * sizeof(methods[0]);
    struct heap_alloc *record = ring_reserve(&ring->ring, HEAP_ALLOC, sizeof(*record) + size,
                                             ring->ring.bytes / FREE_RESERVE);
    if (!record) {
        table_remove(ring->samples, number);
        return false;
    }
    record->head.heap = HEAP_JAVA;
    record->head.n_frames = (uint16_t)n;
    record->address = number;
    record->weight = weight;
    memcpy(record->frames, methods, size);
    ring_commit(record);
    return true;
}

static void count_loss(struct trace_ring *ring, uint64_t weight)
{
    struct heap_header *header = ring->ring.header;
    if (!header)
        return;
    atomic_fetch_add(&header->n_lost_allocs, 1);
    atomic_fetch_add(&header->lost_bytes, weight);
    atomic_fetch_add(&header->owed_bytes, weight);
}

uint64_t trace_ring_add(struct trace_ring *ring, const struct sample_frame *frames, size_t n,
                        uint64_t weight, sample_frame_fn name, void *userdata)
{
    uint64_t methods[HEAP_FRAMES_MAX], number = 0;
    n = n < HEAP_FRAMES_MAX ? n : HEAP_FRAMES_MAX;
    pthread_mutex_lock(&ring->lock);
    bool ok = ring->ring.header != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = method_find(ring, &frames[i], name, userdata, &methods[i]);
    if (ok && sample_put(ring, methods, n, ring->last_number + 1, weight))
        number = ++ring->last_number;
    else
        count_loss(ring, weight);
    pthread_mutex_unlock(&ring->lock);
    return number;
}

void trace_ring_free(struct trace_ring *ring, uint64_t number)
{
    pthread_mutex_lock(&ring->lock);
    if (ring->ring.header && number >= ring->first_number && table_remove(ring->samples, number)) {
        struct heap_free *record = ring_reserve(&ring->ring, HEAP_FREE, sizeof(*record), 0);
        if (record) {
            record->head.heap = HEAP_JAVA;
            record->address = number;
            ring_commit(record);
        } else {
            atomic_fetch_add(&ring->ring.header->n_lost_frees, 1);
        }
    }
    pthread_mutex_unlock(&ring->lock);
}
