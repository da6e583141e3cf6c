// SPDX-License-Identifier: Apache-2.0
//
// A consumer that observes late gets the past events at once: a client that asks after the start of
// the sources must not wait forever. All data sources here belong to this program. They start and
// stop together. A source that was left out is not mentioned.
#include "producer/service/ipc/consumer.h"

#define OUR_NAME "mmtrace"

static void tell(struct consumer *consumer, Pb__ObservableEvents *events)
{
    Pb__ObserveEventsResponse response = PB__OBSERVE_EVENTS_RESPONSE__INIT;
    response.events = events;
    ipc_peer_reply(consumer->peer, &consumer->observing, &response.base, true);
}

static bool observes(const struct consumer *consumer, uint32_t type)
{
    return consumer->observing.wanted && consumer->observed & type;
}

static void tell_instances(struct consumer *consumer,
                           Pb__ObservableEvents__DataSourceInstanceState state)
{
    const Pb__TraceConfig *config =
        service_session_config(consumer->port->service, consumer->session_id);
    if (!config || !observes(consumer, PB__OBSERVABLE_EVENTS__TYPE__TYPE_DATA_SOURCES_INSTANCES))
        return;
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        if (!service_source_has_started(consumer->port->service, consumer->session_id, source))
            continue;
        Pb__ObservableEvents__DataSourceInstanceStateChange
            change = PB__OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE_CHANGE__INIT,
            *changes = &change;
        change.producer_name = (char *)(uintptr_t)OUR_NAME;
        change.data_source_name = source->name;
        change.has_state = true;
        change.state = state;
        Pb__ObservableEvents events = PB__OBSERVABLE_EVENTS__INIT;
        events.n_instance_state_changes = 1;
        events.instance_state_changes = &changes;
        tell(consumer, &events);
    }
}

void consumer_tell_started(struct consumer *consumer)
{
    tell_instances(
        consumer,
        PB__OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE__DATA_SOURCE_INSTANCE_STATE_STARTED);
    if (!observes(consumer, PB__OBSERVABLE_EVENTS__TYPE__TYPE_ALL_DATA_SOURCES_STARTED))
        return;
    Pb__ObservableEvents events = PB__OBSERVABLE_EVENTS__INIT;
    events.has_all_data_sources_started = events.all_data_sources_started = true;
    tell(consumer, &events);
}

void consumer_tell_ended(struct consumer *consumer)
{
    tell_instances(
        consumer,
        PB__OBSERVABLE_EVENTS__DATA_SOURCE_INSTANCE_STATE__DATA_SOURCE_INSTANCE_STATE_STOPPED);
}

void consumer_tell_clone(struct consumer *consumer, const struct service_trigger_hit *trigger)
{
    if (!trigger || !observes(consumer, PB__OBSERVABLE_EVENTS__TYPE__TYPE_CLONE_TRIGGER_HIT))
        return;
    Pb__ObservableEvents__CloneTriggerHit hit = PB__OBSERVABLE_EVENTS__CLONE_TRIGGER_HIT__INIT;
    hit.has_tracing_session_id = hit.has_producer_uid = true;
    hit.has_boot_time_ns = hit.has_trigger_delay_ms = true;
    hit.tracing_session_id = (int64_t)consumer->session_id;
    hit.trigger_name = (char *)(uintptr_t)trigger->name;
    hit.producer_name = (char *)(uintptr_t)trigger->producer_name;
    hit.producer_uid = trigger->producer_uid;
    hit.boot_time_ns = (uint64_t)trigger->time;
    hit.trigger_delay_ms = trigger->stop_delay_ms;
    Pb__ObservableEvents events = PB__OBSERVABLE_EVENTS__INIT;
    events.clone_trigger_hit = &hit;
    tell(consumer, &events);
}

void consumer_observe(struct consumer *consumer, const struct ipc_call *call)
{
    const Pb__ObserveEventsRequest *request = (const void *)call->request;
    Pb__ObserveEventsResponse nothing = PB__OBSERVE_EVENTS_RESPONSE__INIT;
    consumer_settle(consumer, &consumer->observing, &nothing.base);
    consumer->observing = call->ticket;
    consumer->observed = 0;
    for (size_t i = 0; i < request->n_events_to_observe; i++)
        consumer->observed |= (uint32_t)request->events_to_observe[i];
    if (!consumer->observed)
        consumer_settle(consumer, &consumer->observing, &nothing.base);
    else if (consumer->session_id && consumer->ended)
        consumer_tell_ended(consumer);
    else if (service_all_started(consumer->port->service, consumer->session_id))
        consumer_tell_started(consumer);
}
