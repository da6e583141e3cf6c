// SPDX-License-Identifier: Apache-2.0
//
// SaveTraceForBugreport, for clients older than CloneSession: the service itself writes the trace
// of the session with the highest bugreport_score. The trace is an ordinary snapshot, for a
// consumer that exists only for this purpose. The file gets its name when it is complete. When the
// client is answered, no other file is left.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "producer/service/ipc/consumer.h"
#include "producer/trace/trace_file.h"

#define FILE_NAME "systrace.pftrace"

struct consumer_save {
    struct consumer *consumer; // borrowed
    struct ipc_ticket ticket;
    struct service_consumer as_client;
    uint64_t session_id;
    char *path, *part_path; // owned
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
    if (save->part_path)
        unlink(save->part_path);
    if (save->session_id)
        service_destroy(save->consumer->port->service, save->session_id);
    free(save->path);
    free(save->part_path);
    free(save);
    return NULL;
}

static void on_event(void *userdata, uint64_t session_id, enum service_event event, int result,
                     const char *text, const struct service_trigger_hit *trigger)
{
    struct consumer_save *save = userdata;
    struct err err = {0};
    (void)trigger;
    if (event != SERVICE_EVENT_ENDED || session_id != save->session_id)
        return;
    int r = result < 0 ? err_set(&err, result, "%s", text) : 0;
    if (r == 0 && rename(save->part_path, save->path) < 0)
        r = err_errno(&err, -errno, "%s", save->path);
    if (r < 0)
        unlink(save->part_path); // no other file is left when the client is answered
    struct consumer *consumer = save->consumer;
    struct ipc_ticket ticket = save->ticket;
    CLEANUP(freep) char *path = STEAL(save->path);
    consumer->save = consumer_save_free(save);
    reply(consumer, &ticket, r == 0, r == 0 ? path : err.text);
}

static int open_file(struct consumer_save *save, int *ret_fd, struct err *err)
{
    const char *folder = save->consumer->port->save_folder;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "%s", folder);
    if (asprintf(&save->path, "%s/" FILE_NAME, folder) < 0)
        save->path = NULL;
    if (asprintf(&save->part_path, "%s/." FILE_NAME ".%lld", folder,
                 (long long)nsec_now(CLOCK_BOOTTIME)) < 0)
        save->part_path = NULL;
    if (!save->path || !save->part_path)
        return err_errno(err, -ENOMEM, "%s", folder);
    return trace_file_open(save->part_path, true, ret_fd, err);
}

static int begin(struct consumer_save *save, struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    int r = open_file(save, &fd, err);
    if (r < 0)
        return r;
    struct service_clone_request request = {
        .for_bugreport = true,
        .output_fd = &fd,
        .into_file = true,
    };
    struct service_clone_result result;
    r = service_clone(save->consumer->port->service, &save->as_client, &request, &result, err);
    if (r == 0)
        save->session_id = result.session_id;
    return r;
}

void consumer_save_trace(struct consumer *consumer, const struct ipc_call *call)
{
    struct err err = {0};
    if (!consumer->port->save_folder || consumer->save) {
        reply(consumer, &call->ticket, false,
              consumer->save ? "this connection saves a trace already"
                             : "this service saves no traces itself: clone the session");
        return;
    }
    struct consumer_save *save = calloc(1, sizeof(*save));
    if (!save) {
        ipc_peer_reply(consumer->peer, &call->ticket, NULL, false);
        return;
    }
    save->consumer = consumer;
    save->ticket = call->ticket;
    save->as_client = consumer->as_client;
    save->as_client.notify = on_event;
    save->as_client.userdata = save;
    if (begin(save, &err) == 0) {
        consumer->save = save;
        return;
    }
    consumer_save_free(save);
    reply(consumer, &call->ticket, false, err.text);
}
