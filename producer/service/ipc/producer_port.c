// SPDX-License-Identifier: Apache-2.0
//
// Any program may connect here. Therefore only the names of a producer's triggers are trusted; its
// identity comes from the kernel. A standard producer that registers its data sources gets the
// expected answers, keeps its command stream open, and waits, as with a service without recordings.
#include "producer/service/ipc/producer_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRODUCER_NAME_MAX 256
#define TRIGGERS_MAX      256 // per call

struct producer {
    const struct producer_port *port; // borrowed
    struct ipc_peer *peer;            // borrowed
    bool initialized;
    char name[PRODUCER_NAME_MAX];
    struct ipc_ticket commands; // GetAsyncCommand, which is never answered
};

static void initialize(struct producer *producer, const struct ipc_call *call)
{
    const Pb__InitializeConnectionRequest *request = (const void *)call->request;
    if (producer->initialized) {
        ipc_peer_reply(producer->peer, &call->ticket, NULL, false);
        return;
    }
    producer->initialized = true;
    if (request->producer_name)
        strncpy(producer->name, request->producer_name, sizeof(producer->name) - 1);
    Pb__InitializeConnectionResponse response = PB__INITIALIZE_CONNECTION_RESPONSE__INIT;
    response.has_using_shmem_provided_by_producer = true;
    response.has_direct_smb_patching_supported = true;
    response.direct_smb_patching_supported = true;
    response.has_use_shmem_emulation = true;
    response.has_service_pid = true;
    response.service_pid = (int32_t)getpid();
    ipc_peer_reply(producer->peer, &call->ticket, &response.base, false);
}

// Fires triggers. Perfetto's own clients expect an empty answer, and skip the unknown fields.
static void activate(struct producer *producer, const struct ipc_call *call)
{
    typedef Pb__ActivateTriggersResponse__Answer Answer;
    const Pb__ActivateTriggersRequest *request = (const void *)call->request;
    Answer answers[TRIGGERS_MAX], *pointers[TRIGGERS_MAX];
    Pb__ActivateTriggersResponse response = PB__ACTIVATE_TRIGGERS_RESPONSE__INIT;
    if (request->n_trigger_names > TRIGGERS_MAX) {
        ipc_peer_reply(producer->peer, &call->ticket, NULL, false);
        return;
    }
    response.answers = pointers;
    const struct ipc_credentials *client = ipc_peer_credentials(producer->peer);
    for (; response.n_answers < request->n_trigger_names; response.n_answers++) {
        struct service_trigger_result result = service_activate_trigger(
            producer->port->service, request->trigger_names[response.n_answers], producer->name,
            client->uid, client->payer);
        Answer *answer = pointers[response.n_answers] = &answers[response.n_answers];
        *answer = (Answer)PB__ACTIVATE_TRIGGERS_RESPONSE__ANSWER__INIT;
        answer->has_sessions = answer->has_acted = answer->has_held_back = true;
        answer->sessions = result.sessions;
        answer->acted = result.acted;
        answer->held_back = result.held_back;
    }
    ipc_peer_reply(producer->peer, &call->ticket, &response.base, false);
}

static void invoke(void *state, const struct ipc_call *call)
{
    struct producer *producer = state;
    if (call->method == IPC_PRODUCER_INITIALIZE_CONNECTION) {
        initialize(producer, call);
        return;
    }
    if (!producer->initialized) {
        ipc_peer_reply(producer->peer, &call->ticket, NULL, false);
        return;
    }
    if (call->method == IPC_PRODUCER_GET_ASYNC_COMMAND) {
        producer->commands = call->ticket;
        return;
    }
    if (call->method == IPC_PRODUCER_ACTIVATE_TRIGGERS) {
        activate(producer, call);
        return;
    }
    ipc_peer_reply_bytes(producer->peer, &call->ticket, NULL, 0, false);
}

static int opened(void *userdata, struct ipc_peer *peer, void **ret_state)
{
    struct producer *producer = calloc(1, sizeof(*producer));
    if (!producer)
        return -ENOMEM;
    producer->port = userdata;
    producer->peer = peer;
    *ret_state = producer;
    return 0;
}

static void closed(void *state)
{
    free(state);
}

void producer_port_init(struct producer_port *port, struct service *service)
{
    *port = (struct producer_port){
        .port = {.service = &ipc_producer_service,
                 .opened = opened,
                 .invoke = invoke,
                 .closed = closed,
                 .userdata = port},
        .service = service,
    };
}
