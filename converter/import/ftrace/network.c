// SPDX-License-Identifier: Apache-2.0
//
// Network: traffic of interfaces, packets that the kernel drops, and states of TCP sockets.
#include "common/cleanup.h"
#include "converter/import/ftrace/ftrace.h"

#define IPV4_ETHERTYPE 2048
#define IPV6_ETHERTYPE 34525

struct direction {
    const char *type, *title;
};

struct network {
    struct map64 bytes;   // track of an interface -> bytes so far
    struct map64 streams; // address of a TCP socket -> its number
    uint64_t n_dropped;   // packets
};

// Adds the traffic of a network interface since the start of the trace, in KiB. `rc` is not 0 if
// the driver refused the packet.
static void network_push(struct import *im, const struct ftrace_event *event)
{
    struct network *network = event->own;
    const struct direction *direction = event->detail;
    if (ftrace_int(event, "rc"))
        return;
    struct slice_name device = ftrace_text(event, "name");
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_add(&name, device.text, device.size);
    strbuf_add_str(&name, direction->title);
    struct track_spec spec = {
        .type = direction->type,
        .counter = true,
        .dimensions = {dimension_text("network_interface", device.text, device.size)},
        .name = {name.text, name.size},
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    uint64_t len = (uint64_t)ftrace_int(event, "len");
    bool is_new;
    uint64_t *total = import_map_get(im, &network->bytes, track, 0, &is_new);
    if (!total)
        return;
    *total += len;
    struct arg args[] = {arg_uint("cpu", event->cpu), arg_uint("len", len)};
    counter_push(im, event->ts, track, (double)(*total / 1024), args_add(&im->args, args, 2));
}

static void kfree_skb(struct import *im, const struct ftrace_event *event)
{
    struct network *network = event->own;
    int64_t protocol = ftrace_int(event, "protocol");
    if (protocol != IPV4_ETHERTYPE && protocol != IPV6_ETHERTYPE)
        return;
    struct track_spec spec = {
        .type = "net_kfree_skb", .counter = true, .name = slice_name("Kfree Skb IP Prot")};
    bool is_v4 = protocol == IPV4_ETHERTYPE;
    struct arg arg = arg_text("protocol", is_v4 ? "IP" : "IPV6", is_v4 ? 2 : 4);
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec), (double)++network->n_dropped,
                 args_add(&im->args, &arg, 1));
}

enum { AF_IPV4 = 2, AF_IPV6 = 10, PROTOCOL_TCP = 6 };
enum { TCP_IS_ESTABLISHED = 1, TCP_HAS_SENT_SYN = 2, N_TCP_STATES = 13 };

static const char *const tcp_states[N_TCP_STATES] = {
    "TCP_UNKNOWN",   "TCP_ESTABLISHED", "TCP_SYN_SENT",     "TCP_SYN_RECV",   "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2", "TCP_TIME_WAIT",   "TCP_CLOSE",        "TCP_CLOSE_WAIT", "TCP_LAST_ACK",
    "TCP_LISTEN",    "TCP_CLOSING",     "TCP_NEW_SYN_RECV",
};

static struct slice_name socket_state(struct import *im, const struct ftrace_event *event,
                                      int64_t state)
{
    if (state == TCP_HAS_SENT_SYN)
        return import_text(im, "%s(pid=%u)", tcp_states[state], event->pid);
    if (state == TCP_IS_ESTABLISHED)
        return import_text(im, "%s(sport=%u,dport=%u)", tcp_states[state],
                           (uint32_t)ftrace_int(event, "sport"),
                           (uint32_t)ftrace_int(event, "dport"));
    return slice_name(tcp_states[state]);
}

// Adds a slice for each state of a socket. Sockets are numbered in order of appearance.
static void inet_sock_set_state(struct import *im, const struct ftrace_event *event)
{
    struct network *network = event->own;
    int64_t family = ftrace_int(event, "family"), to = ftrace_int(event, "newstate");
    int64_t from = ftrace_int(event, "oldstate");
    if (ftrace_int(event, "protocol") != PROTOCOL_TCP || (family != AF_IPV4 && family != AF_IPV6) ||
        to < 0 || to >= N_TCP_STATES || from < 0 || from >= N_TCP_STATES)
        return;
    bool is_new;
    const uint64_t *stream =
        import_map_get(im, &network->streams, (uint64_t)ftrace_int(event, "skaddr"),
                       network->streams.n + 1, &is_new);
    if (!stream)
        return;
    struct track_spec track = {
        .type = "net_socket_set_state",
        .dimensions = {dimension_int("tcp_stream_idx", (int64_t)*stream)},
        .name = import_text(im, "TCP stream#%u", (uint32_t)*stream),
    };
    struct slice_spec spec = {.ts = event->ts, .track = tracks_get(&im->tracks, &track)};
    slice_end(&im->slices, &spec);
    spec.category = slice_name("tcp_state");
    spec.name = socket_state(im, event, to);
    slice_begin(&im->slices, &spec);
}

#define DIRECTION(type, title)                                                                     \
    FORM_CALL(network_push), .detail = &(const struct direction)                                   \
    {                                                                                              \
        type, title                                                                                \
    }

static const struct ftrace_form forms[] = {
    {"tcp_retransmit_skb", FORM_MOMENT, .type = "net_tcp_retransmit_skb",
     .track = "TCP Retransmit Skb", .category = "tcp_event", .name = "sport={sport},dport={dport}"},
    {"netif_receive_skb", DIRECTION("net_receive", " Received KB")},
    {"net_dev_xmit", DIRECTION("net_transmit", " Transmitted KB")},
    {"kfree_skb", FORM_CALL(kfree_skb)},
    {"inet_sock_set_state", FORM_CALL(inet_sock_set_state)},
    {0},
};

const struct ftrace_subject ftrace_network = {
    .forms = forms,
    .state_size = sizeof(struct network),
    .n_maps = 2,
};
