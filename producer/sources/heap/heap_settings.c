// SPDX-License-Identifier: Apache-2.0
//
// A field that would change the recording and is not supported is refused: a profile that differs
// from the request is misleading. Two fields hold automatically: children after fork are never part
// of their parent's profile and never end it, and allocations of a child after vfork are in its
// parent's heap.
#include "producer/sources/heap/heap_settings.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "common/str.h"

#define RING_BYTES_MIN 8192
#define RING_BYTES_MAX (UINT64_C(512) << 20)
#define NAME_MAX_BYTES 4096

static int refuse(struct err *err, const char *what, const char *why)
{
    return err_set(err, -EOPNOTSUPP, "heapprofd_config.%s: %s", what, why);
}

static int check_refused(const Pb__HeapprofdConfig *config, struct err *err)
{
    if (config->stream_allocations)
        return refuse(err, "stream_allocations", "single allocations are not recorded");
    if (config->n_target_installed_by > 0)
        return refuse(err, "target_installed_by", "this machine has no package installers");
    return 0;
}

static int want_heap(struct heap_settings *ret, const char *name, uint64_t interval,
                     struct err *err)
{
    struct ring_options *ring = &ret->ring;
    if (str_eq(name, HEAP_MALLOC_NAME)) {
        ring->interval_bytes = interval;
        return 0;
    }
    if (!name[0] || strlen(name) >= HEAP_NAME_BYTES)
        return err_set(err, -EINVAL,
                       "heapprofd_config: \"%s\": a heap's name has 1 to %d characters", name,
                       HEAP_NAME_BYTES - 1);
    if (ring->n_wanted == HEAP_WANTED_MAX)
        return err_set(err, -EOPNOTSUPP, "heapprofd_config: names more than %d heaps",
                       HEAP_WANTED_MAX);
    struct heap_wanted *wanted = &ring->wanted[ring->n_wanted++];
    memcpy(wanted->name, name, strlen(name) + 1);
    wanted->interval_bytes = interval;
    return 0;
}

static int want_named(const Pb__HeapprofdConfig *config, struct heap_settings *ret, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < config->n_heaps; i++) {
        uint64_t interval = config->n_heap_sampling_intervals > 0
                                ? config->heap_sampling_intervals[i]
                                : config->sampling_interval_bytes;
        if (interval == 0)
            return refuse(err, "heap_sampling_intervals", "one of them is 0");
        r = want_heap(ret, config->heaps[i], interval, err);
    }
    return r;
}

// Moves the settings of the Java heap out of the settings for native programs.
static void split_java(struct heap_settings *ret)
{
    struct ring_options *ring = &ret->ring;
    ret->java_interval_bytes = ring->others_interval_bytes;
    ret->native = ring->interval_bytes > 0 || ring->others_interval_bytes > 0;
    for (uint32_t i = 0; i < ring->n_wanted; i++) {
        const struct heap_wanted *wanted = &ring->wanted[i];
        if (!str_eq(wanted->name, HEAP_JAVA_NAME)) {
            ret->native |= wanted->interval_bytes > 0;
            continue;
        }
        ret->java_interval_bytes = wanted->interval_bytes;
        ret->java_named = wanted->interval_bytes > 0;
        ring->wanted[i--] = ring->wanted[--ring->n_wanted];
    }
}

static int read_heaps(const Pb__HeapprofdConfig *config, struct heap_settings *ret, struct err *err)
{
    int r = 0;
    if (config->n_heap_sampling_intervals > 0 &&
        config->n_heap_sampling_intervals != config->n_heaps)
        return refuse(err, "heap_sampling_intervals", "there must be one for each of heaps");
    if (config->sampling_interval_bytes == 0 &&
        (config->n_heap_sampling_intervals == 0 || config->all_heaps))
        return err_set(err, -EINVAL, "heapprofd_config.sampling_interval_bytes: missing or 0");
    if (config->n_heaps == 0 || config->all_heaps)
        ret->ring.interval_bytes = config->sampling_interval_bytes;
    if (config->all_heaps)
        ret->ring.others_interval_bytes = config->sampling_interval_bytes;
    for (size_t i = 0; r == 0 && config->all_heaps && i < config->n_exclude_heaps; i++)
        r = want_heap(ret, config->exclude_heaps[i], 0, err);
    return r == 0 ? want_named(config, ret, err) : r;
}

static int read_ring(const Pb__HeapprofdConfig *config, struct heap_settings *ret, struct err *err)
{
    uint64_t bytes = config->shmem_size_bytes ? config->shmem_size_bytes : HEAP_RING_BYTES_DEFAULT;
    if (bytes < RING_BYTES_MIN || (bytes & (bytes - 1)) != 0 || bytes > RING_BYTES_MAX)
        return refuse(err, "shmem_size_bytes", "must be a power of two between 8192 and 512 MiB");
    ret->ring.bytes = bytes;
    ret->ring.block_client = config->block_client;
    ret->ring.block_timeout_us = config->block_client_timeout_us;
    if (config->block_client_timeout_us && !config->block_client)
        return refuse(err, "block_client_timeout_us", "needs block_client: true");
    ret->ring.adaptive_free_bytes = config->adaptive_sampling_shmem_threshold;
    ret->ring.adaptive_interval_bytes = config->adaptive_sampling_max_sampling_interval_bytes;
    if (ret->ring.adaptive_free_bytes > bytes)
        return refuse(err, "adaptive_sampling_shmem_threshold", "is more than shmem_size_bytes");
    return 0;
}

static int read_dumps(const Pb__HeapprofdConfig *config, struct heap_settings *ret, struct err *err)
{
    const Pb__HeapprofdConfig__ContinuousDumpConfig *dump = config->continuous_dump_config;
    ret->dump_at_max = config->dump_at_max;
    if (!dump || dump->dump_interval_ms == 0)
        return 0;
    if (config->dump_at_max)
        return refuse(err, "dump_at_max",
                      "makes one dump, and does not go with continuous_dump_config");
    ret->dump_interval = dump->dump_interval_ms * NSEC_PER_MSEC;
    ret->dump_phase = dump->dump_phase_ms * NSEC_PER_MSEC;
    return 0;
}

static int read_targets(const Pb__HeapprofdConfig *config, struct heap_settings *ret,
                        struct err *err)
{
    ret->startup = !config->no_startup;
    ret->running = !config->no_running;
    ret->children = !config->no_children;
    if (!ret->startup && !ret->running)
        return refuse(err, "no_startup", "with no_running no process is left");
    if (config->n_pid == 0 && config->n_process_cmdline == 0 && !config->all)
        return err_set(err, -EINVAL,
                       "heapprofd_config: names no process (pid, process_cmdline or all)");
    for (size_t i = 0; i < config->n_process_cmdline; i++)
        if (config->process_cmdline[i][0] == 0)
            return err_set(err, -EINVAL, "heapprofd_config.process_cmdline: an empty name");
    return 0;
}

int heap_settings_read(const Pb__DataSourceConfig *config, struct heap_settings *ret,
                       struct err *err)
{
    const Pb__HeapprofdConfig *heap = config->heapprofd_config;
    if (!heap)
        return err_set(err, -EINVAL, "its config has no heapprofd_config");
    struct heap_settings settings = {
        .min_anonymous_kb = heap->min_anonymous_memory_kb,
        .max_memory_kb = heap->max_heapprofd_memory_kb,
        .max_cpu_secs = heap->max_heapprofd_cpu_secs,
        .config = heap,
    };
    int r = check_refused(heap, err);
    if (r == 0)
        r = read_heaps(heap, &settings, err);
    split_java(&settings);
    if (r == 0)
        r = read_ring(heap, &settings, err);
    if (r == 0)
        r = read_dumps(heap, &settings, err);
    if (r == 0)
        r = read_targets(heap, &settings, err);
    if (r == 0)
        *ret = settings;
    return r;
}

// Cuts a path at `@` and takes the part after the last slash.
static void program_name(const char *argument, char *ret, size_t ret_size)
{
    size_t size = strcspn(argument, "@");
    const char *end = argument + size, *start = end;
    while (start > argument && start[-1] != '/')
        start--;
    size = (size_t)(end - start) < ret_size - 1 ? (size_t)(end - start) : ret_size - 1;
    memcpy(ret, start, size);
    ret[size] = 0;
}

static bool name_matches(const char *wanted, const char *argument)
{
    char name[NAME_MAX_BYTES], plain[NAME_MAX_BYTES];
    if (strchr(wanted, '*')) {
        if (wanted[0] == '/')
            return fnmatch(wanted, argument, 0) == 0;
        program_name(argument, name, sizeof(name));
        return fnmatch(wanted, name, 0) == 0;
    }
    program_name(argument, name, sizeof(name));
    program_name(wanted, plain, sizeof(plain));
    return plain[0] && str_eq(plain, name);
}

bool heap_settings_match(const struct heap_settings *settings, int32_t pid, const char *argument)
{
    const Pb__HeapprofdConfig *config = settings->config;
    for (size_t i = 0; i < config->n_pid; i++)
        if (config->pid[i] == (uint64_t)pid)
            return true;
    for (size_t i = 0; i < config->n_process_cmdline; i++)
        if (name_matches(config->process_cmdline[i], argument))
            return true;
    return config->all;
}

bool heap_settings_skip_names(const struct heap_settings *settings, const char *path)
{
    const Pb__HeapprofdConfig *config = settings->config;
    for (size_t i = 0; i < config->n_skip_symbol_prefix; i++)
        if (str_starts_with(path, config->skip_symbol_prefix[i]))
            return true;
    return false;
}
