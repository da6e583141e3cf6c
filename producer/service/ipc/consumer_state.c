// SPDX-License-Identifier: Apache-2.0
//
// The state of the service can be larger than a frame. As in Perfetto, the answer comes in parts.
// Each part is a TracingServiceState; the joined parts are the whole message. Lists are cut between
// items.
#include "common/elements.h"
#include "producer/service/ipc/consumer.h"
#include "producer/service/ipc/frame.h"

#define PART_MAX    (IPC_FRAME_MAX - 256)
#define ITEM_AROUND 8 // tag and length of one item

struct cut {
    struct consumer *consumer;
    const struct ipc_ticket *ticket;
    Pb__TracingServiceState part; // all borrowed
    size_t size;
};

static void send_part(struct cut *cut, bool has_more)
{
    Pb__QueryServiceStateResponse response = PB__QUERY_SERVICE_STATE_RESPONSE__INIT;
    response.service_state = &cut->part;
    ipc_peer_reply(cut->consumer->peer, cut->ticket, &response.base, has_more);
    cut->part = (Pb__TracingServiceState)PB__TRACING_SERVICE_STATE__INIT;
    cut->size = 0;
}

// Makes room for one more item. Returns false if the item is larger than a part and is left out.
static bool make_room(struct cut *cut, const ProtobufCMessage *item)
{
    size_t size = protobuf_c_message_get_packed_size(item) + ITEM_AROUND;
    if (size > PART_MAX)
        return false;
    if (cut->size + size > PART_MAX)
        send_part(cut, true);
    cut->size += size;
    return true;
}

// A left-out item ends the run of its list in this part; the following items begin a new run.
#define ADD_ITEMS(cut, whole, list)                                                                \
    for (size_t i_ = 0; i_ < (whole)->n_##list; i_++) {                                            \
        if (!make_room((cut), &(whole)->list[i_]->base)) {                                         \
            send_part((cut), true);                                                                \
            continue;                                                                              \
        }                                                                                          \
        if (!(cut)->part.n_##list)                                                                 \
            (cut)->part.list = &(whole)->list[i_];                                                 \
        (cut)->part.n_##list++;                                                                    \
    }

// Removes the sessions of other users, unless `uid` is root. A user who may not copy a session must
// not see it.
static void leave_out_others(Pb__TracingServiceState *state, uid_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        Pb__TracingServiceState__TracingSession *session = state->tracing_sessions[i];
        if (uid == 0 || (uid_t)session->consumer_uid == uid)
            state->tracing_sessions[n++] = session;
        else
            protobuf_c_message_free_unpacked(&session->base, NULL);
    }
    state->n_tracing_sessions = n;
}

void consumer_query_state(struct consumer *consumer, const struct ipc_call *call)
{
    const Pb__QueryServiceStateRequest *request = (const void *)call->request;
    Pb__TracingServiceState *whole =
        service_query_state(consumer->port->service, request->sessions_only);
    if (!whole) {
        ipc_peer_reply(consumer->peer, &call->ticket, NULL, false);
        return;
    }
    leave_out_others(whole, ipc_peer_credentials(consumer->peer)->uid);
    struct cut cut = {.consumer = consumer, .ticket = &call->ticket, .part = *whole};
    cut.part.base.n_unknown_fields = 0;
    cut.part.n_producers = cut.part.n_data_sources = cut.part.n_tracing_sessions = 0;
    cut.part.n_trace_folders = 0;
    cut.size = pb__tracing_service_state__get_packed_size(&cut.part);
    ADD_ITEMS(&cut, whole, tracing_sessions);
    ADD_ITEMS(&cut, whole, trace_folders);
    ADD_ITEMS(&cut, whole, producers);
    ADD_ITEMS(&cut, whole, data_sources);
    send_part(&cut, false);
    pb__tracing_service_state__free_unpacked(whole, NULL);
}

void consumer_query_capabilities(struct consumer *consumer, const struct ipc_call *call)
{
    Pb__ObservableEvents__Type events[] = {
        PB__OBSERVABLE_EVENTS__TYPE__TYPE_DATA_SOURCES_INSTANCES,
        PB__OBSERVABLE_EVENTS__TYPE__TYPE_ALL_DATA_SOURCES_STARTED,
        PB__OBSERVABLE_EVENTS__TYPE__TYPE_CLONE_TRIGGER_HIT,
    };
    Pb__TracingServiceCapabilities capabilities = PB__TRACING_SERVICE_CAPABILITIES__INIT;
    capabilities.has_has_query_capabilities = capabilities.has_query_capabilities = true;
    capabilities.has_has_trace_config_output_path = true;
    capabilities.has_trace_config_output_path = true;
    capabilities.has_has_clone_session = capabilities.has_clone_session = true;
    capabilities.n_observable_events = ELEMENTS(events);
    capabilities.observable_events = events;
    Pb__QueryCapabilitiesResponse response = PB__QUERY_CAPABILITIES_RESPONSE__INIT;
    response.capabilities = &capabilities;
    ipc_peer_reply(consumer->peer, &call->ticket, &response.base, false);
}
