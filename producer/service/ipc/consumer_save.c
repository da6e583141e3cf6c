// SPDX-License-Identifier: Apache-2.0
//
// SaveTraceForBugreport, for clients from before CloneSession: the service itself writes the trace
// of the session with the highest bugreport_score. It is a snapshot as any other, of a consumer
// that exists for this alone, and it is written a slice a round, so that nobody else waits. The
// file gets its name when it is whole.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "producer/service/ipc/consumer.h"
#include "producer/trace/trace_file.h"

#define FILE_NAME   "systrace.pftrace"
#define SLICE_BYTES ((size_t)1 << 20)

struct consumer_save {
    struct consumer *consumer; // borrowed
    struct ipc_ticket ticket;
    struct service_consumer as_client;
    uint64_t session_id;
    struct trace_file *file;  // owned
    struct loop_timer *timer; // owned
    char *path, *part_path;   // owned
};

static void reply(struct consumer *consumer, const struct ipc_ticket *ticket, bool success,
                  const char *text)
{
    Pb__SaveTraceForBugreportResponse response = PB__SAVE_TRACE_FOR_BUGREPORT_RESPONSE__INIT;
    response.has_success = true;
    response.success = success;
    response.msg = (char *)(uintptr_t)text;
    ipc_peer_reply(consumer->peer, ticket, &response.base, false);
}

struct consumer_save *consumer_save_free(struct consumer_save *save)
{
    if (!save)
        return NULL;
    loop_remove_timer(save->timer);
    trace_file_free(save->file);
    if (save->part_path)
        unlink(save->part_path);
    if (save->session_id)
        service_destroy(save->consumer->port->service, save->session_id);
    free(save->path);
    free(save->part_path);
    free(save);
    return NULL;
}

// 1: there is more to write.
static int write_slice(struct consumer_save *save, struct err *err)
{
    struct service *service = save->consumer->port->service;
    struct packet_view packet;
    for (size_t written = 0; written < SLICE_BYTES;) {
        if (!service_read_peek(service, save->session_id, &packet))
            return 0;
        int r = trace_file_add(save->file, &packet, err);
        if (r != 0) // a regular file without a limit neither blocks nor is full
            return r < 0 ? r : err_set(err, -EIO, "%s: cannot be written", save->part_path);
        written += packet.size + 1;
        service_read_advance(service, save->session_id);
    }
    return 1;
}

static void on_timer(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    struct consumer_save *save = userdata;
    struct err err = {0};
    int r = write_slice(save, &err);
    if (r > 0) {
        loop_set_timer(save->timer, 0, 0);
        return;
    }
    if (r == 0)
        r = trace_file_finish(save->file, 0, &err);
    if (r == 0 && rename(save->part_path, save->path) < 0)
        r = err_errno(&err, -errno, "%s", save->path);
    struct consumer *consumer = save->consumer;
    reply(consumer, &save->ticket, r == 0, r == 0 ? save->path : err.text);
    consumer->save = consumer_save_free(save);
}

static int open_file(struct consumer_save *save, struct err *err)
{
    const char *folder = save->consumer->port->save_folder;
    CLEANUP(close_fdp) int fd = -1;
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "%s", folder);
    if (asprintf(&save->path, "%s/" FILE_NAME, folder) < 0)
        save->path = NULL;
    if (asprintf(&save->part_path, "%s/." FILE_NAME ".%d", folder, (int)save->session_id) < 0)
        save->part_path = NULL;
    if (!save->path || !save->part_path)
        return err_errno(err, -ENOMEM, "%s", folder);
    int r = trace_file_open(save->part_path, false, &fd, err);
    if (r < 0)
        return r;
    struct trace_file_options options = {.name = save->path};
    r = trace_file_new(fd, &options, &save->file, err);
    if (r == 0)
        steal_fd(&fd);
    return r;
}

static int begin(struct consumer_save *save, struct err *err)
{
    const struct consumer_port *port = save->consumer->port;
    struct service_clone_request request = {.for_bugreport = true};
    struct service_clone_result result;
    int r = service_clone(port->service, &save->as_client, &request, &result, err);
    if (r < 0)
        return r;
    save->session_id = result.session_id;
    r = open_file(save, err);
    if (r == 0)
        r = service_read_begin(port->service, save->session_id, err);
    if (r == 0 && (r = loop_add_timer(port->loop, 0, 0, on_timer, save, &save->timer)) < 0)
        err_errno(err, r, "event loop");
    return r;
}

void consumer_save_trace(struct consumer *consumer, const struct ipc_ticket *ticket)
{
    struct err err = {0};
    if (!consumer->port->save_folder || consumer->save) {
        reply(consumer, ticket, false,
              consumer->save ? "this connection saves a trace already"
                             : "this service saves no traces itself: clone the session");
        return;
    }
    struct consumer_save *save = calloc(1, sizeof(*save));
    if (!save) {
        ipc_peer_reply(consumer->peer, ticket, NULL, false);
        return;
    }
    save->consumer = consumer;
    save->ticket = *ticket;
    save->as_client = consumer->as_client;
    save->as_client.notify = NULL;
    if (begin(save, &err) == 0) {
        consumer->save = save;
        return;
    }
    reply(consumer, ticket, false, err.text);
    consumer_save_free(save);
}
