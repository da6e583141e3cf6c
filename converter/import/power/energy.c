// SPDX-License-Identifier: Apache-2.0
//
// Android's estimates of energy by consumer and user, and the time that hardware entities were in
// each of their states. Both refer to descriptions by number. The first description of a number
// counts for the whole trace.
#include "common/cleanup.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct described {
    struct wire_field name; // of a consumer or an entity
    struct wire_field type; // of a consumer, or the name of the state of an entity
    int32_t ordinal;
};
VEC_DEFINE(described_vec, struct described);

struct descriptions {
    struct map64 by_number; // -> index in items
    struct described_vec items;
};

static void describe(struct import *im, struct descriptions *all, bool is_whole, uint64_t number,
                     struct described described)
{
    bool is_new;
    if (!is_whole)
        stats_add(&im->stats, STAT_energy_descriptor_invalid, 1);
    else if (import_map_get(im, &all->by_number, number, all->items.n, &is_new) && is_new)
        import_fail(im, described_vec_push(&all->items, described));
}

static const struct described *described_find(const struct descriptions *all, uint64_t number)
{
    const uint64_t *index = map64_find(&all->by_number, number);
    return index ? &all->items.items[*index] : NULL;
}

static void descriptions_done(void *state)
{
    struct descriptions *all = state;
    map64_done(&all->by_number);
    described_vec_done(&all->items);
}

static void energy_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, AndroidEnergyEstimationBreakdown, packet->message);
    for (struct fields each = fields_of(&part.energy_consumer_descriptor,
                                        PB_AndroidEnergyConsumerDescriptor_energy_consumers);
         fields_next(&each);) {
        MESSAGE(consumer, AndroidEnergyConsumer, &each.field);
        describe(im, packet->own, field_present(&consumer.energy_consumer_id),
                 (uint32_t)field_u64(&consumer.energy_consumer_id),
                 (struct described){.name = consumer.name,
                                    .type = consumer.type,
                                    .ordinal = (int32_t)field_u64(&consumer.ordinal)});
    }
}

static void uid_push(struct import *im, int64_t ts, struct track_spec spec,
                     const struct wire_field *message)
{
    MESSAGE(part, AndroidEnergyEstimationBreakdown_EnergyUidBreakdown, message);
    if (!field_present(&part.uid) || !field_present(&part.energy_uws)) {
        stats_add(&im->stats, STAT_energy_uid_breakdown_missing_values, 1);
        return;
    }
    spec.type = "android_energy_estimation_breakdown_per_uid";
    spec.dimensions[1] = dimension_int("uid", (uint32_t)field_u64(&part.uid));
    counter_push(im, ts, tracks_get(&im->tracks, &spec), (double)field_i64(&part.energy_uws),
                 ARG_SET_NONE);
}

static void energy_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, AndroidEnergyEstimationBreakdown, packet->message);
    if (field_present(&part.energy_consumer_descriptor))
        return;
    const struct wire_field *id = &part.energy_consumer_id, *uws = &part.energy_uws;
    const struct described *consumer = field_present(id) && field_present(uws)
                                           ? described_find(packet->own, (uint32_t)field_u64(id))
                                           : NULL;
    if (!consumer) {
        stats_add(&im->stats, STAT_energy_breakdown_missing_values, 1);
        return;
    }
    struct track_spec spec = {
        .type = "android_energy_estimation_breakdown",
        .counter = true,
        .dimensions = {dimension_int("energy_consumer_id", (int32_t)field_u64(id))},
        .name = field_name(&consumer->name),
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg args[] = {
        arg_text("consumer_type", consumer->type.data, consumer->type.size),
        arg_int("ordinal", consumer->ordinal),
    };
    track_describe(&im->tracks, track, args, 2);
    counter_push(im, packet->ts, track, (double)field_i64(uws), ARG_SET_NONE);
    for (struct fields each =
             fields_of(packet->message, PB_AndroidEnergyEstimationBreakdown_per_uid_breakdown);
         fields_next(&each);)
        uid_push(im, packet->ts, spec, &each.field);
}

static uint64_t state_number(const struct wire_field *entity, const struct wire_field *state)
{
    return field_u64(entity) << 32 | (uint32_t)field_u64(state);
}

static void entity_now(struct import *im, const struct packet *packet)
{
    for (struct fields each =
             fields_of(packet->message, PB_EntityStateResidency_power_entity_state);
         fields_next(&each);) {
        MESSAGE(part, EntityStateResidency_PowerEntityState, &each.field);
        describe(im, packet->own,
                 field_present(&part.entity_index) && field_present(&part.state_index),
                 state_number(&part.entity_index, &part.state_index),
                 (struct described){.name = part.entity_name, .type = part.state_name});
    }
}

static void residency_push(struct import *im, int64_t ts, const struct described *described,
                           double total_ms)
{
    const struct wire_field *entity = &described->name, *state = &described->type;
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_add_str(&name, "Entity residency: ");
    strbuf_add(&name, field_text(entity), entity->size);
    strbuf_add_str(&name, " is ");
    strbuf_add(&name, field_text(state), state->size);
    struct track_spec spec = {
        .type = "entity_state",
        .counter = true,
        .dimensions = {dimension_text("entity_name", field_text(entity), entity->size),
                       dimension_text("state_name", field_text(state), state->size)},
        .name = {name.text, name.size},
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), total_ms, ARG_SET_NONE);
}

static void entity_sorted(struct import *im, const struct packet *packet)
{
    bool has_residency = false;
    for (struct fields each = fields_of(packet->message, PB_EntityStateResidency_residency);
         fields_next(&each);) {
        has_residency = true;
        MESSAGE(part, EntityStateResidency_StateResidency, &each.field);
        const struct described *described =
            described_find(packet->own, state_number(&part.entity_index, &part.state_index));
        if (described)
            residency_push(im, packet->ts, described,
                           (double)field_u64(&part.total_time_in_state_ms));
        else
            stats_add(&im->stats, STAT_entity_state_residency_lookup_failed, 1);
    }
    if (!has_residency)
        stats_add(&im->stats, STAT_entity_state_residency_invalid, 1);
}

const struct importer importer_energy_breakdown = {
    .field = PB_TracePacket_android_energy_estimation_breakdown,
    .now = energy_now,
    .sorted = energy_sorted,
    .state_size = sizeof(struct descriptions),
    .done = descriptions_done,
};
const struct importer importer_entity_state = {
    .field = PB_TracePacket_entity_state_residency,
    .now = entity_now,
    .sorted = entity_sorted,
    .state_size = sizeof(struct descriptions),
    .done = descriptions_done,
};
