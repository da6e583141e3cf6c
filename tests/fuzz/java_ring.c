// SPDX-License-Identifier: Apache-2.0
//
// A hostile VM writes anything into its ring, and the recorder makes a dump. The first eight bytes
// of the input are the position up to which the VM claims to have written. The rest is the
// beginning of the ring.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/sources/heap/heap_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING_BYTES 8192

static void check_book(const struct heap_book *book)
{
    uint64_t total = 0;
    vec_foreach(&book->sites, site) {
        if (site->freed > site->allocated || site->n_frees > site->n_allocs)
            abort();
        total += site->allocated - site->freed;
    }
    vec_foreach(&book->frames, frame)
        if (frame->mapping != BOOK_METHOD ||
            (frame->name != STRSET_NONE && frame->name >= book->texts.n))
            abort();
    if (total != book->total || book->mappings.n > 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap_settings settings = {.ring.bytes = RING_BYTES, .java_interval_bytes = 512};
    struct profile_process heaps[HEAP_HEAPS_MAX];
    struct heap_client *client = NULL;
    uint64_t position;
    int fds[2];
    if (size < sizeof(position) || size > sizeof(position) + RING_BYTES ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return 0;
    if (heap_client_new_java(&settings, getpid(), &fds[0], &client, NULL) == 0) {
        memcpy(&position, data, sizeof(position));
        memcpy(client->ring.memory, data + sizeof(position), size - sizeof(position));
        atomic_store(&client->ring.header->write_pos, position);
        heap_client_look(client, NSEC_MAX);
        if (!client->ended)
            heap_client_end(client, false, NSEC_MAX);
        if (heap_client_describe(client, &settings, false, heaps) != 1)
            abort();
        check_book(heaps[0].book);
        heap_client_free(client);
    }
    close_fd(fds[0]);
    close_fd(fds[1]);
    return 0;
}
