// SPDX-License-Identifier: Apache-2.0
//
// What Android estimates of energy, per consumer and user, and how long parts of the hardware were
// in each of their states. Both describe by numbers what they name elsewhere; the first description
// of a number counts, wherever it stands.
#include <errno.h>

#include "common/cleanup.h"
#include "converter/import/importer.h"

enum { PACKET_ENERGY = 77, PACKET_ENTITY_STATE = 91 };
enum { ENERGY_DESCRIPTOR = 1, ENERGY_CONSUMER, ENERGY_UWS, ENERGY_UID };
enum { DESCRIPTOR_CONSUMER = 1 };
enum { CONSUMER_ID = 1, CONSUMER_ORDINAL, CONSUMER_TYPE, CONSUMER_NAME };
enum { UID_UID = 1, UID_UWS };
enum { ENTITY_STATE = 1, ENTITY_RESIDENCY };
enum { STATE_ENTITY = 1, STATE_STATE, STATE_ENTITY_NAME, STATE_STATE_NAME };
enum { RESIDENCY_ENTITY = 1, RESIDENCY_STATE, RESIDENCY_TOTAL_MS };

struct described {
    struct wire_field name, type; // of the consumer; of the entity and its state
    int32_t ordinal;
};
VEC_DEFINE(described_vec, struct described);

struct descriptions {
    struct map64 by_number; // -> index in items
    struct described_vec items;
};

static int describe(struct descriptions *all, uint64_t number, struct described described)
{
    bool is_new;
    if (!map64_get_or_add(&all->by_number, number, all->items.n, &is_new))
        return -ENOMEM;
    return is_new ? described_vec_push(&all->items, described) : 0;
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

static int energy_now(struct import *im, void *state, const struct packet *packet,
                      const struct wire_field *message)
{
    (void)packet;
    MESSAGE(part, ENERGY_DESCRIPTOR, message);
    struct wire_reader reader = wire_sub(&part[ENERGY_DESCRIPTOR]);
    struct wire_field field;
    int r = 0;
    while (r == 0 && wire_next(&reader, &field)) {
        if (field.number != DESCRIPTOR_CONSUMER)
            continue;
        MESSAGE(consumer, CONSUMER_NAME, &field);
        if (!field_present(&consumer[CONSUMER_ID])) {
            stats_add(&im->stats, STAT_energy_descriptor_invalid, 1);
            continue;
        }
        r = describe(
            state, (uint32_t)field_u64(&consumer[CONSUMER_ID]),
            (struct described){.name = consumer[CONSUMER_NAME],
                               .type = consumer[CONSUMER_TYPE],
                               .ordinal = (int32_t)field_u64(&consumer[CONSUMER_ORDINAL])});
    }
    return r;
}

static void uid_push(struct import *im, int64_t ts, struct track_spec spec,
                     const struct wire_field *message)
{
    MESSAGE(part, UID_UWS, message);
    if (!field_present(&part[UID_UID]) || !field_present(&part[UID_UWS])) {
        stats_add(&im->stats, STAT_energy_uid_breakdown_missing_values, 1);
        return;
    }
    spec.type = "android_energy_estimation_breakdown_per_uid";
    spec.dimensions[1] = dimension_int("uid", (uint32_t)field_u64(&part[UID_UID]));
    counter_push(im, ts, tracks_get(&im->tracks, &spec), (double)field_i64(&part[UID_UWS]),
                 ARG_SET_NONE);
}

static int energy_sorted(struct import *im, void *state, const struct packet *packet,
                         const struct wire_field *message)
{
    MESSAGE(part, ENERGY_UWS, message);
    if (field_present(&part[ENERGY_DESCRIPTOR]))
        return 0;
    const struct wire_field *id = &part[ENERGY_CONSUMER], *uws = &part[ENERGY_UWS];
    const struct described *consumer = field_present(id) && field_present(uws)
                                           ? described_find(state, (uint32_t)field_u64(id))
                                           : NULL;
    if (!consumer) {
        stats_add(&im->stats, STAT_energy_breakdown_missing_values, 1);
        return 0;
    }
    struct track_spec spec = {
        .type = "android_energy_estimation_breakdown",
        .counter = true,
        .dimensions = {dimension_int("energy_consumer_id", (int32_t)field_u64(id))},
        .name = field_text(&consumer->name),
        .name_size = consumer->name.size,
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg args[] = {
        arg_text("consumer_type", consumer->type.data, consumer->type.size),
        arg_int("ordinal", consumer->ordinal),
    };
    track_describe(&im->tracks, track, args, 2);
    counter_push(im, packet->ts, track, (double)field_i64(uws), ARG_SET_NONE);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == ENERGY_UID)
            uid_push(im, packet->ts, spec, &field);
    }
    return 0;
}

static uint64_t state_number(const struct wire_field *entity, const struct wire_field *state)
{
    return field_u64(entity) << 32 | (uint32_t)field_u64(state);
}

static int entity_now(struct import *im, void *state, const struct packet *packet,
                      const struct wire_field *message)
{
    (void)packet;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    int r = 0;
    while (r == 0 && wire_next(&reader, &field)) {
        if (field.number != ENTITY_STATE)
            continue;
        MESSAGE(part, STATE_STATE_NAME, &field);
        if (!field_present(&part[STATE_ENTITY]) || !field_present(&part[STATE_STATE])) {
            stats_add(&im->stats, STAT_energy_descriptor_invalid, 1);
            continue;
        }
        r = describe(
            state, state_number(&part[STATE_ENTITY], &part[STATE_STATE]),
            (struct described){.name = part[STATE_ENTITY_NAME], .type = part[STATE_STATE_NAME]});
    }
    return r;
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
        .name = name.text,
        .name_size = name.size,
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), total_ms, ARG_SET_NONE);
}

static int entity_sorted(struct import *im, void *state, const struct packet *packet,
                         const struct wire_field *message)
{
    bool has_residency = false;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    while (wire_next(&reader, &field)) {
        if (field.number != ENTITY_RESIDENCY)
            continue;
        has_residency = true;
        MESSAGE(part, RESIDENCY_TOTAL_MS, &field);
        const struct described *described =
            described_find(state, state_number(&part[RESIDENCY_ENTITY], &part[RESIDENCY_STATE]));
        if (described)
            residency_push(im, packet->ts, described, (double)field_u64(&part[RESIDENCY_TOTAL_MS]));
        else
            stats_add(&im->stats, STAT_entity_state_residency_lookup_failed, 1);
    }
    if (!has_residency)
        stats_add(&im->stats, STAT_entity_state_residency_invalid, 1);
    return 0;
}

const struct importer importer_energy_breakdown = {
    .field = PACKET_ENERGY,
    .now = energy_now,
    .sorted = energy_sorted,
    .state_size = sizeof(struct descriptions),
    .done = descriptions_done,
};
const struct importer importer_entity_state = {
    .field = PACKET_ENTITY_STATE,
    .now = entity_now,
    .sorted = entity_sorted,
    .state_size = sizeof(struct descriptions),
    .done = descriptions_done,
};
