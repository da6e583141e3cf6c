// SPDX-License-Identifier: Apache-2.0
//
// Packets that Android's network recorder saw, single or in bundles. The common fields of a
// bundle's packets are in the bundle or interned.
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/android/packages.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define UIDS_PER_USER 100000
#define TRACK_NAME    63 // bytes, as in Perfetto

struct traffic {
    int64_t ts, dur, n_bytes, n_packets;
};

// Optional fields of an event, with their args and columns
static const struct {
    uint32_t field;
    const char *key;
    size_t column;
} optional[] = {
    {PB_NetworkPacketEvent_local_port, "local_port", COL__network_packet_local_port},
    {PB_NetworkPacketEvent_remote_port, "remote_port", COL__network_packet_remote_port},
    {PB_NetworkPacketEvent_icmp_type, "packet_icmp_type", COL__network_packet_packet_icmp_type},
    {PB_NetworkPacketEvent_icmp_code, "packet_icmp_code", COL__network_packet_packet_icmp_code},
};
#define N_OPTIONAL ELEMENTS(optional)
static struct slice_name protocol_name(struct import *im, uint32_t protocol)
{
    static const char *const names[] = {
        [1] = "IPPROTO_ICMP", [6] = "IPPROTO_TCP", [17] = "IPPROTO_UDP", [58] = "IPPROTO_ICMPV6"};
    const char *name = protocol < ELEMENTS(names) ? names[protocol] : NULL;
    return name ? slice_name(name) : import_text(im, "IPPROTO (%u)", protocol);
}

// Returns a letter for each set flag: fin, syn, rst, push, ack, urgent, ece, cwr.
static struct slice_name tcp_flags_name(struct import *im, uint32_t flags)
{
    char letters[] = "fsrpauec";
    for (size_t i = 0; letters[i]; i++)
        if (!(flags >> i & 1))
            letters[i] = '.';
    return import_text(im, "%s", letters);
}

static struct slice_name sender_name(struct import *im, uint32_t uid)
{
    const uint64_t *package = (int32_t)uid > 0 ? packages_find(im, uid % UIDS_PER_USER) : NULL;
    return package ? slice_name_of(&im->strings, (uint32_t)*package)
                   : import_text(im, "uid=%u", uid);
}

static uint32_t traffic_track(struct import *im, const struct wire_field *interface,
                              const char *direction, const struct traffic *traffic)
{
    struct track_spec spec = {
        .type = "network_packets",
        .dimensions = {dimension_text("net_interface", field_text(interface), interface->size),
                       dimension_text("net_direction", direction, strlen(direction))},
        .name =
            name_cut(import_text(im, "%.*s %s",
                                 (int)str_cut(field_text(interface), interface->size, TRACK_NAME),
                                 field_text(interface), direction),
                     TRACK_NAME),
    };
    return async_track_span(&im->async_tracks, &spec, traffic->ts, traffic->dur);
}

static void row_text(struct cell *row, size_t column, struct slice_name name)
{
    cell_bytes(row, column, name.text, name.size);
}

static void traffic_add(struct import *im, struct traffic traffic,
                        const union message_NetworkPacketEvent *event)
{
    static const char *const directions[] = {"DIR_UNKNOWN", "Received", "Transmitted"};
    uint64_t way = field_u64(&event->direction);
    const char *direction = directions[way < 3 ? way : 0];
    const struct wire_field *interface = &event->network_interface, *flags = &event->tcp_flags;
    uint32_t uid = (uint32_t)field_u64(&event->uid);
    uint32_t tag = (uint32_t)field_u64(&event->tag);
    struct slice_name protocol = protocol_name(im, (uint32_t)field_u64(&event->ip_proto));
    struct slice_name tag_name = import_text(im, "0x%x", tag), flags_name = {0};
    struct arg args[10] = {arg_name("packet_transport", protocol), arg_int("socket_uid", uid),
                           arg_name("socket_tag", tag_name)};
    size_t n = 3;
    if (field_present(flags)) {
        flags_name = tcp_flags_name(im, (uint32_t)field_u64(flags));
        ARG_APPEND(args, n, arg_name("packet_tcp_flags", flags_name));
    }
    for (size_t i = 0; i < N_OPTIONAL; i++)
        if (field_present(&event->at[optional[i].field]))
            ARG_APPEND(
                args, n,
                arg_int(optional[i].key, (uint32_t)field_u64(&event->at[optional[i].field])));
    ARG_APPEND(args, n, arg_int("packet_length", traffic.n_bytes));
    ARG_APPEND(args, n, arg_int("packet_count", traffic.n_packets));
    struct slice_spec spec = {
        .ts = traffic.ts,
        .dur = traffic.dur,
        .track = traffic_track(im, interface, direction, &traffic),
        .name = sender_name(im, uid),
        .args = args,
        .n_args = n,
    };
    int64_t slice = slice_add(&im->slices, &spec);
    if (slice == SLICE_NONE)
        return;
    struct cell *row = database_row(im->db, TABLE__network_packet, NULL);
    cell_int(row, COL__network_packet_slice_id, slice);
    cell_field(row, COL__network_packet_iface, interface);
    cell_text(row, COL__network_packet_direction, direction);
    row_text(row, COL__network_packet_packet_transport, protocol);
    cell_int(row, COL__network_packet_packet_length, traffic.n_bytes);
    cell_int(row, COL__network_packet_packet_count, traffic.n_packets);
    cell_int(row, COL__network_packet_socket_tag, tag);
    row_text(row, COL__network_packet_socket_tag_str, tag_name);
    cell_int(row, COL__network_packet_socket_uid, uid);
    for (size_t i = 0; i < N_OPTIONAL; i++)
        if (field_present(&event->at[optional[i].field]))
            cell_int(row, optional[i].column, (uint32_t)field_u64(&event->at[optional[i].field]));
    if (!field_present(flags))
        return;
    cell_int(row, COL__network_packet_packet_tcp_flags, (uint32_t)field_u64(flags));
    row_text(row, COL__network_packet_packet_tcp_flags_str, flags_name);
}

static void packet_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(event, NetworkPacketEvent, packet->message);
    traffic_add(im,
                (struct traffic){.ts = packet->ts,
                                 .n_bytes = (uint32_t)field_u64(&event.length),
                                 .n_packets = 1},
                &event);
}

static struct wire_field context_of(struct import *im, const struct packet *packet,
                                    const union message_NetworkPacketBundle *bundle)
{
    if (!field_present(&bundle->iid))
        return bundle->ctx;
    struct wire_field whole = interned_message(
        generation_find(packet->state, PB_InternedData_packet_context, field_u64(&bundle->iid)));
    if (!field_present(&whole)) {
        stats_add(&im->stats, STAT_network_trace_intern_errors, 1);
        return bundle->ctx;
    }
    MESSAGE(context, NetworkPacketContext, &whole);
    return context.ctx;
}

static void bundle_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(bundle, NetworkPacketBundle, packet->message);
    struct wire_field context = context_of(im, packet, &bundle);
    MESSAGE(event, NetworkPacketEvent, &context);
    if (field_present(&bundle.total_length)) {
        traffic_add(im,
                    (struct traffic){.ts = packet->ts,
                                     .dur = field_i64(&bundle.total_duration),
                                     .n_bytes = field_i64(&bundle.total_length),
                                     .n_packets = (uint32_t)field_u64(&bundle.total_packets)},
                    &event);
        return;
    }
    struct values times = values_of(packet->message, PB_NetworkPacketBundle_packet_timestamps);
    struct values lengths = values_of(packet->message, PB_NetworkPacketBundle_packet_lengths);
    uint64_t after, length;
    while (values_next(&times, &after) && values_next(&lengths, &length))
        traffic_add(im,
                    (struct traffic){.ts = (int64_t)((uint64_t)packet->ts + after),
                                     .n_bytes = (uint32_t)length,
                                     .n_packets = 1},
                    &event);
}

const struct importer importer_network_packet = {.field = PB_TracePacket_network_packet,
                                                 .sorted = packet_sorted};
const struct importer importer_network_bundle = {.field = PB_TracePacket_network_packet_bundle,
                                                 .sorted = bundle_sorted};
