// SPDX-License-Identifier: Apache-2.0
//
// Requests are small and answered at once, except for cloning, which waits for a flush.
#include "producer/cli/remote.h"

#include <errno.h>
#include <signal.h>

#include "common/str.h"
#include "producer/service/ipc/socket.h"

#define PRODUCER_NAME "mmtrace_trigger"

bool remote_nobody_there(int r)
{
    return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR;
}

static int connect_to(const struct ipc_service *service, const char *socket_name,
                      struct ipc_client **ret, struct err *err)
{
    signal(SIGPIPE, SIG_IGN);
    int r = ipc_client_connect(service, socket_name, REMOTE_TIMEOUT, ret, err);
    if (remote_nobody_there(r)) {
        err_set(err, r, "no tracing service answers at %s", socket_name);
        err_hint(err, r, "start one with mmtrace daemon");
    }
    return r;
}

int remote_connect_consumer(struct ipc_client **ret, struct err *err)
{
    return connect_to(&ipc_consumer_service, ipc_consumer_socket_name(), ret, err);
}

static int activate_at(const char *socket_name, char *const *names, size_t n_names, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    int r = connect_to(&ipc_producer_service, socket_name, &client, err);
    if (r < 0)
        return r;
    Pb__InitializeConnectionRequest hello = PB__INITIALIZE_CONNECTION_REQUEST__INIT;
    hello.producer_name = (char *)(uintptr_t)PRODUCER_NAME;
    r = ipc_client_call(client, IPC_PRODUCER_INITIALIZE_CONNECTION, &hello.base, -1, REMOTE_TIMEOUT,
                        NULL, err);
    if (r < 0)
        return r;
    Pb__ActivateTriggersRequest triggers = PB__ACTIVATE_TRIGGERS_REQUEST__INIT;
    triggers.trigger_names = (char **)(uintptr_t)names;
    triggers.n_trigger_names = n_names;
    return ipc_client_call(client, IPC_PRODUCER_ACTIVATE_TRIGGERS, &triggers.base, -1,
                           REMOTE_TIMEOUT, NULL, err);
}

int remote_activate_triggers(char *const *names, size_t n_names, struct err *err)
{
    const char *sockets = ipc_producer_socket_names();
    char name[256];
    size_t n_told = 0;
    int worst = -ENOENT;
    for (size_t i = 0; ipc_socket_list_get(sockets, i, name, sizeof(name)); i++) {
        int r = activate_at(name, names, n_names, err);
        if (r == 0)
            n_told++;
        else if (!remote_nobody_there(r))
            return r;
        else
            worst = r;
    }
    return n_told > 0 ? 0 : worst;
}

static void set_trigger(Pb__CloneSessionRequest *request,
                        const Pb__ObservableEvents__CloneTriggerHit *hit)
{
    request->clone_trigger_name = hit->trigger_name;
    request->clone_trigger_producer_name = hit->producer_name;
    request->has_clone_trigger_trusted_producer_uid = true;
    request->clone_trigger_trusted_producer_uid = (int32_t)hit->producer_uid;
    request->has_clone_trigger_boot_time_ns = true;
    request->clone_trigger_boot_time_ns = hit->boot_time_ns;
    request->has_clone_trigger_delay_ms = true;
    request->clone_trigger_delay_ms = hit->trigger_delay_ms;
}

int remote_clone_session(struct ipc_client *client, const struct remote_clone *clone,
                         bool *ret_in_file, struct err *err)
{
    Pb__CloneSessionRequest request = PB__CLONE_SESSION_REQUEST__INIT;
    if (clone->session_id) {
        request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID;
        request.session_id = clone->session_id;
    } else {
        request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_UNIQUE_SESSION_NAME;
        request.unique_session_name = (char *)(uintptr_t)clone->name;
    }
    request.has_for_bugreport = request.for_bugreport = clone->for_bugreport;
    request.has_skip_trace_filter = request.skip_trace_filter = clone->for_bugreport;
    if (clone->trigger)
        set_trigger(&request, clone->trigger);
    ProtobufCMessage *reply;
    int r = ipc_client_call(client, IPC_CONSUMER_CLONE_SESSION, &request.base, clone->output_fd,
                            REMOTE_CLONE_TIMEOUT, &reply, err);
    if (r < 0)
        return r;
    const Pb__CloneSessionResponse *response = (const Pb__CloneSessionResponse *)reply;
    *ret_in_file = response->was_write_into_file;
    if (!response->success)
        r = err_set(err, -EREMOTEIO, "%s",
                    response->error && response->error[0] ? response->error
                                                          : "the service could not clone it");
    protobuf_c_message_free_unpacked(reply, NULL);
    return r;
}

void remote_free_buffers(struct ipc_client *client)
{
    Pb__FreeBuffersRequest request = PB__FREE_BUFFERS_REQUEST__INIT;
    ipc_client_call(client, IPC_CONSUMER_FREE_BUFFERS, &request.base, -1, REMOTE_TIMEOUT, NULL,
                    NULL);
}
