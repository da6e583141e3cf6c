// SPDX-License-Identifier: Apache-2.0
//
// The copy is a session of the service like any other, read by those who own it. Reading it out at
// once would keep the loop, and with it every recording, from going on for as long as the disk
// likes; so each call writes about a megabyte. The file gets its name at the end: before that it
// would be a trace without its last packets.
#include "producer/service/armed_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SLICE_BYTES    ((size_t)1 << 20)
#define FINISH_TIMEOUT NSEC_PER_SEC

DEFINE_CLEANUP(snapshot_freep, struct armed_snapshot, armed_snapshot_free);

static int take_copy(struct armed_snapshot *snapshot, const struct service_consumer *consumer,
                     uint64_t session_id, const struct service_trigger_hit *trigger,
                     const char *name, bool deflate, struct err *err)
{
    CLEANUP(close_fdp) int fd = fcntl(snapshot->file.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_errno(err, -errno, "%s", name);
    struct service_clone_request request = {
        .session_id = session_id,
        .output_fd = &fd,
        .trigger = trigger,
    };
    struct service_clone_result result;
    int r = service_clone(snapshot->service, consumer, &request, &result, err);
    if (r < 0)
        return r;
    snapshot->session_id = result.session_id;
    if (result.was_write_into_file)
        return 0; // then the service has written it all
    r = service_read_begin(snapshot->service, snapshot->session_id, err);
    if (r < 0)
        return r;
    struct trace_file_options options = {.name = name, .deflate = deflate};
    r = trace_file_new(fd, &options, &snapshot->out, err);
    if (r == 0)
        steal_fd(&fd);
    return r;
}

int armed_snapshot_take(struct service *service, const struct service_consumer *consumer,
                        uint64_t session_id, const struct service_trigger_hit *trigger,
                        const struct armed_folder *folder, bool deflate, time_t now,
                        struct armed_snapshot **ret, struct err *err)
{
    CLEANUP(snapshot_freep) struct armed_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!snapshot)
        return err_errno(err, -ENOMEM, "snapshot");
    snapshot->service = service;
    snapshot->taken = now;
    snapshot->file = ARMED_FILE_NONE;
    int r = armed_file_open(folder, now, &snapshot->file, err);
    if (r == 0)
        r = take_copy(snapshot, consumer, session_id, trigger, folder->path, deflate, err);
    if (r < 0)
        return err_prefix(err, r, "snapshot");
    *ret = STEAL(snapshot);
    return 0;
}

// 1: the slice is full; 0: there was no more.
static int write_slice(struct armed_snapshot *snapshot, struct err *err)
{
    struct packet_view packet;
    struct trace_file_stats stats;
    trace_file_get_stats(snapshot->out, &stats);
    uint64_t end = stats.bytes_written + SLICE_BYTES;
    while (stats.bytes_written < end) {
        if (!service_read_peek(snapshot->service, snapshot->session_id, &packet))
            return 0;
        int r = trace_file_add(snapshot->out, &packet, err);
        if (r < 0)
            return r;
        if (r == 0)
            service_read_advance(snapshot->service, snapshot->session_id);
        trace_file_get_stats(snapshot->out, &stats);
    }
    return 1;
}

int armed_snapshot_write(struct armed_snapshot *snapshot, const struct armed_folder *folder,
                         struct err *err)
{
    int r = snapshot->out ? write_slice(snapshot, err) : 0;
    if (r == 0 && snapshot->out)
        r = trace_file_finish(snapshot->out, FINISH_TIMEOUT, err);
    if (r == 0)
        r = armed_file_publish(&snapshot->file, folder, snapshot->taken, err);
    return r < 0 ? err_prefix(err, r, "snapshot") : r;
}

struct armed_snapshot *armed_snapshot_free(struct armed_snapshot *snapshot)
{
    if (!snapshot)
        return NULL;
    trace_file_free(snapshot->out);
    if (snapshot->session_id)
        service_destroy(snapshot->service, snapshot->session_id);
    armed_file_close(&snapshot->file);
    free(snapshot);
    return NULL;
}
