// SPDX-License-Identifier: Apache-2.0
//
// No client can end the recording. Nothing here waits for another process, unless this recording is
// the recorder's only work (heap_host_is_alone()).
#include "producer/sources/heap/heap_source_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS_EVERY (500 * NSEC_PER_MSEC)

static void stop_looking(struct heap_source *heap)
{
    if (heap->running)
        heap_host_leave(heap->host, heap);
    heap->running = false;
    heap->look_timer = loop_remove_timer(heap->look_timer);
    heap->dump_timer = loop_remove_timer(heap->dump_timer);
    heap->target_timer = loop_remove_timer(heap->target_timer);
    heap_running_end(heap);
}

static struct source *heap_close(struct source *source)
{
    struct heap_source *heap = (struct heap_source *)source;
    if (!heap)
        return NULL;
    stop_looking(heap);
    heap_attach_vec_done(&heap->attaches);
    heap_wake_vec_done(&heap->wakes);
    pid_vec_done(&heap->waiting);
    heap_targets_done(&heap->targets);
    vec_foreach(&heap->clients, client)
        heap_client_free(*client);
    heap_client_vec_done(&heap->clients);
    heap_names_done(&heap->names);
    heap_shares_done(&heap->shares);
    profile_writer_done(&heap->profile);
    free(heap);
    return NULL;
}

static int heap_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    struct heap_settings settings;
    int r = heap_settings_read(config, &settings, err);
    if (r < 0)
        return r;
    if (!env->roots->heap_host || !env->helper)
        return err_set(err, -EOPNOTSUPP, "this recorder has no part for heap profiles");
    struct heap_source *heap = calloc(1, sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    heap->env = *env;
    heap->host = env->roots->heap_host;
    heap->settings = settings;
    heap->profile = (struct profile_writer){
        .writer = env->writer,
        .dump_at_max = settings.dump_at_max,
        .name = heap_dumps_name,
        .userdata = heap,
    };
    heap_shares_init(&heap->shares);
    heap_names_init(&heap->names, env->helper, env->log, env->roots->proc, &heap->settings);
    *ret = (struct source *)heap;
    return 0;
}

static int start_timers(struct heap_source *heap, nsec_t now)
{
    const struct heap_settings *settings = &heap->settings;
    int r = source_add_timer(&heap->env, now + HEAP_LOOK_FAST, 0, heap_dumps_look, heap,
                             &heap->look_timer);
    heap->dump_due = NSEC_MAX;
    if (r == 0 && settings->dump_interval) {
        heap->dump_due =
            now + (settings->dump_phase ? settings->dump_phase : settings->dump_interval);
        r = source_add_timer(&heap->env, heap->dump_due, settings->dump_interval, heap_dumps_due,
                             heap, &heap->dump_timer);
    }
    // A program that is started for the profile asks without a search.
    heap->passing_over = !settings->running;
    if (r == 0 && (settings->running || !heap_host_is_private(heap->host)))
        r = source_add_timer(&heap->env, now, TARGETS_EVERY, heap_running_look, heap,
                             &heap->target_timer);
    return r;
}

// A child finds the recorder by the name of the socket, wherever the child's current folder is.
static void invite_children(struct heap_source *heap)
{
    const char *name = heap_host_native_socket(heap->host);
    char *ret = heap->settings.ring.children_ask;
    if (heap->settings.children && name && (*name == '@' || *name == '/') &&
        strlen(name) < HEAP_ADDRESS_BYTES)
        strcpy(ret, name);
}

static int heap_start(struct source *source, struct err *err)
{
    struct heap_source *heap = (struct heap_source *)source;
    heap_clients_start_guard(heap);
    heap->look_period = HEAP_LOOK_FAST;
    heap->running = true;
    heap->started = nsec_now(CLOCK_BOOTTIME);
    int r = 0;
    if (heap->settings.startup && heap->settings.native)
        r = heap_host_join(heap->host, false, heap_arrivals_program, heap, err);
    if (r == 0 && heap->settings.java_interval_bytes)
        r = heap_host_join(heap->host, true, heap_arrivals_vm, heap, err);
    if (r < 0)
        return r;
    invite_children(heap);
    r = start_timers(heap, nsec_now(CLOCK_BOOTTIME));
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static void heap_flush(struct source *source)
{
    struct heap_source *heap = (struct heap_source *)source;
    vec_foreach(&heap->clients, client)
        if (!(*client)->ended)
            heap_clients_look_at(heap, *client);
}

static void heap_stop(struct source *source)
{
    struct heap_source *heap = (struct heap_source *)source;
    stop_looking(heap);
    heap_dumps_hear_answers(heap);
    vec_foreach(&heap->clients, client) {
        bool has_exited = (*client)->ended || heap_client_has_exited(*client);
        heap_clients_tell_silence(heap, *client, !has_exited);
        if (!(*client)->ended)
            heap_clients_end(heap, *client, has_exited);
        heap_clients_tell_silence(heap, *client, true);
        heap_clients_log_loss(heap, *client);
    }
    heap_clients_log_children(heap);
    if (heap->n_silent > 1)
        log_warning(heap->env.log,
                    "linux.heap: %llu processes have asked for a profile and did not "
                    "begin",
                    (unsigned long long)heap->n_silent);
    if (heap->n_left > 1)
        log_warning(heap->env.log,
                    "linux.heap: %llu processes are not profiled because the recording ended",
                    (unsigned long long)heap->n_left);
    if (heap->n_refused > 1)
        log_warning(heap->env.log, "linux.heap: %llu processes are not profiled because of limits",
                    (unsigned long long)heap->n_refused);
    heap_dumps_write(heap, true);
    vec_foreach(&heap->clients, client)
        if (!heap_client_has_left(*client))
            heap_host_detach(heap->host, (*client)->pid, (*client)->ring.fd);
}

static void heap_dump(struct source *source)
{
    struct heap_source *heap = (struct heap_source *)source;
    if (heap->settings.dump_at_max)
        log_warning(heap->env.log,
                    "linux.heap: dump_at_max makes one dump, at the end: no dump is made now");
    else {
        heap_dumps_hear_answers(heap);
        heap_dumps_write(heap, false);
    }
}

static void heap_dump_copy(struct source *source)
{
    heap_dumps_write_copy((struct heap_source *)source);
}

static void heap_counts(const struct source *source, struct source_counts *ret)
{
    const struct heap_source *heap = (const struct heap_source *)source;
    size_t n_profiled = 0;
    ret->events = 0;
    ret->events_lost = heap->n_lost;
    vec_foreach(&heap->clients, client) {
        ret->events += (*client)->n_samples;
        ret->events_lost += (*client)->n_failed + heap_client_lost(*client);
        n_profiled += heap_client_has_begun(*client);
    }
    ret->problem = heap->problem[0] && n_profiled == 0 ? heap->problem : NULL;
}

static const struct config_unread unread[] = {
    {&pb__heapprofd_config__descriptor, "disable_fork_teardown", false,
     "a fork never ends a profile"},
    {&pb__heapprofd_config__descriptor, "disable_vfork_detection", false,
     "a child after vfork() always counts as its parent"},
    {.field = NULL},
};

const struct source_class heap_class = {
    .name = "android.heapprofd",
    .aliases = (const char *const[]){"linux.heap", NULL},
    .summary = "sampled call stacks of what native programs allocate",
    .config = SOURCE_CONFIG(heapprofd_config),
    .unread = unread,
    .open = heap_open,
    .start = heap_start,
    .flush = heap_flush,
    .stop = heap_stop,
    .close = heap_close,
    .counts = heap_counts,
    .dump = heap_dump,
    .dump_copy = heap_dump_copy,
};
