// SPDX-License-Identifier: Apache-2.0
//
// The VM's end of a profile and the recorder's, in one process.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/unix_socket.h"
#include "producer/agents/jvm/trace_ring.h"
#include "producer/sources/heap/heap_client.h"
#include "tests/unit/unit.h"

static char socket_name[64];
static int listen_fd;
static struct heap_settings settings = {.ring.bytes = 65536, .java_interval_bytes = 4096};

// Rings live as long as the process: a ring that is kept here is not a leak.
static struct trace_ring *kept[16];
static size_t n_kept;

static struct trace_ring *ring_new(void)
{
    assert_true(n_kept < ELEMENTS(kept));
    kept[n_kept] = trace_ring_new();
    assert_non_null(kept[n_kept]);
    return kept[n_kept++];
}

static void *answer(void *userdata)
{
    struct heap_client **client = userdata;
    struct err err = {0};
    int fd = accept(listen_fd, NULL, NULL);
    if (fd >= 0)
        heap_client_new_java(&settings, getpid(), &fd, client, &err);
    close_fd(fd);
    return NULL;
}

static struct heap_client *connect_both(struct trace_ring *ring)
{
    struct heap_client *client = NULL;
    uint64_t interval = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer, &client), 0);
    int r = trace_ring_connect(ring, socket_name, &interval);
    pthread_join(thread, NULL);
    assert_int_equal(r, 0);
    assert_int_equal(interval, 4096);
    assert_non_null(client);
    return client;
}

static int make_socket(void **state)
{
    (void)state;
    snprintf(socket_name, sizeof(socket_name), "@mmtrace-java-ring-%d", (int)getpid());
    int r = unix_socket_listen(socket_name, SOCK_SEQPACKET, 0600, UNIX_GROUP_NONE, &listen_fd);
    struct timeval time = {.tv_sec = 5};
    if (r == 0 && fcntl(listen_fd, F_SETFL, 0) == 0) // accept() waits
        setsockopt(listen_fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    return r;
}

static size_t name(void *userdata, const struct sample_frame *frame, char *text, size_t size)
{
    ++*(int *)userdata;
    return (size_t)snprintf(text, size, "Shop.m%d", (int)frame->method);
}

static const struct sample_frame stack_a[] = {{3, 0}, {2, 0}, {1, 0}};
static const struct sample_frame stack_b[] = {{4, 0}, {2, 0}, {1, 0}};

static void samples_and_frees_arrive(void **state)
{
    (void)state;
    struct trace_ring *ring = ring_new();
    struct heap_client *client = connect_both(ring);
    int n_names = 0;
    uint64_t first = trace_ring_add(ring, stack_a, 3, 5000, name, &n_names);
    assert_true(first > 0);
    assert_true(trace_ring_add(ring, stack_b, 3, 700, name, &n_names) > first);
    assert_true(trace_ring_add(ring, stack_a, 3, 5000, name, &n_names) > 0);
    assert_int_equal(n_names, 4); // each method is named once
    trace_ring_free(ring, first);
    trace_ring_free(ring, first); // frees a sample that the recorder does not know any more
    heap_client_look(client, NSEC_MAX);
    const struct heap_book *book = &client->heaps[HEAP_JAVA]->book;
    assert_int_equal(book->frames.n, 4);
    assert_int_equal(book->total, 5700);
    assert_int_equal(book->sites.items[3].n_allocs, 2);
    assert_int_equal(book->sites.items[3].freed, 5000);
    const struct book_frame *leaf = &book->frames.items[book->sites.items[3].frame];
    assert_int_equal(leaf->mapping, BOOK_METHOD);
    assert_string_equal(strset_text(&book->texts, leaf->name), "Shop.m3");
    trace_ring_disconnect(ring);
    assert_int_equal(trace_ring_add(ring, stack_a, 3, 5000, name, &n_names), 0);
    heap_client_look(client, NSEC_MAX);
    assert_true(client->ended && client->disconnected);
    heap_client_free(client);
}

static void numbers_of_former_profiles_mean_nothing(void **state)
{
    (void)state;
    struct trace_ring *ring = ring_new();
    struct heap_client *client = connect_both(ring);
    int n_names = 0;
    uint64_t former = trace_ring_add(ring, stack_a, 3, 5000, name, &n_names);
    heap_client_end(client, false, NSEC_MAX);
    assert_true(trace_ring_wait(ring, -1)); // the recorder's end is closed
    heap_client_free(client);
    client = connect_both(ring);
    assert_true(trace_ring_add(ring, stack_a, 3, 5000, name, &n_names) > former);
    assert_int_equal(n_names, 6); // reported again
    trace_ring_free(ring, former);
    heap_client_look(client, NSEC_MAX);
    assert_int_equal(client->heaps[HEAP_JAVA]->book.total, 5000);
    trace_ring_disconnect(ring);
    heap_client_free(client);
}

// Nobody reads the ring: samples without room are counted, and no call waits.
static void a_full_ring_loses_samples(void **state)
{
    (void)state;
    struct trace_ring *ring = ring_new();
    struct heap_client *client = connect_both(ring);
    int n_names = 0;
    uint64_t n = 0, n_lost = 0, first = 0;
    for (int i = 0; i < 5000; i++) {
        uint64_t number = trace_ring_add(ring, stack_a, 3, 100, name, &n_names);
        first = first ? first : number;
        n += number > 0;
        n_lost += number == 0;
    }
    assert_true(n > 0 && n_lost > 0);
    for (uint64_t i = 0; i < n; i++)
        trace_ring_free(ring, first + i);
    assert_int_equal(heap_client_lost(client), n_lost);
    heap_client_look(client, NSEC_MAX);
    // The reader sees frees whose records were lost in the table.
    heap_client_end(client, false, NSEC_MAX);
    assert_int_equal(client->heaps[HEAP_JAVA]->n_samples, n);
    assert_int_equal(client->heaps[HEAP_JAVA]->book.total, 0);
    trace_ring_disconnect(ring);
    heap_client_free(client);
}

static void what_a_vm_may_not_say_is_passed_over(void **state)
{
    (void)state;
    struct trace_ring *ring = ring_new();
    struct heap_client *client = connect_both(ring);
    struct heap_book *book = &client->heaps[HEAP_JAVA]->book;
    struct heap_method method = {.number = 7, .name_size = 3};
    struct ring_record record = {.kind = HEAP_METHOD, .method = &method, .method_name = "one"};
    uint64_t frames[] = {7, 8};
    assert_int_equal(heap_book_add(book, &record), 0);
    record.method_name = "two"; // the first counts
    assert_int_equal(heap_book_add(book, &record), 0);
    record = (struct ring_record){
        .kind = HEAP_ALLOC, .address = 1, .weight = 10, .frames = frames, .n_frames = 2};
    assert_int_equal(heap_book_add(book, &record), 0);
    assert_int_equal(book->frames.n, 2);
    assert_int_equal(book->frames.items[0].name, STRSET_NONE); // no record named method 8
    assert_int_equal(book->frames.items[0].rel_pc, 0);
    assert_string_equal(strset_text(&book->texts, book->frames.items[1].name), "one");
    trace_ring_disconnect(ring);
    heap_client_free(client);
}

static void nobody_wants_it(void **state)
{
    (void)state;
    struct trace_ring *ring = ring_new();
    uint64_t interval;
    assert_int_equal(trace_ring_connect(ring, "@mmtrace-java-ring-nobody", &interval),
                     -ECONNREFUSED);
    assert_true(trace_ring_connect(ring, "/nowhere/at/all", &interval) < 0);
    assert_true(trace_ring_wait(ring, -1));
    trace_ring_free(ring, 1);
    trace_ring_disconnect(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_and_frees_arrive),
        cmocka_unit_test(numbers_of_former_profiles_mean_nothing),
        cmocka_unit_test(a_full_ring_loses_samples),
        cmocka_unit_test(what_a_vm_may_not_say_is_passed_over),
        cmocka_unit_test(nobody_wants_it),
    };
    return cmocka_run_group_tests(tests, make_socket, NULL);
}
