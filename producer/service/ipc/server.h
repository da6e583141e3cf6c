// SPDX-License-Identifier: Apache-2.0
//
// Listening sockets and their peers. The server handles frames and method calls; the port behind
// the socket implements the methods. A peer that breaks the protocol, stalls or does not read is
// disconnected, and no other peer notices.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/service/ipc/service_table.h"
#include "producer/service/ipc/socket.h"

struct ipc_server;
struct ipc_peer;

// Limits; 0 selects the default.
struct ipc_server_limits {
    uint32_t max_peers;         // all peers; default 512. The last 16 are reserved for root
    uint32_t max_peers_per_uid; // of a user other than root; default 128
    nsec_t first_frame_timeout; // for the first frame after the connection; default 30 s
    nsec_t frame_timeout;       // for the rest of a frame; default 10 s
    nsec_t write_timeout;       // for any progress of the outbox; default 30 s
};

struct ipc_server_env {
    struct loop *loop;     // borrowed
    const struct log *log; // borrowed; may be NULL
    struct ipc_server_limits limits;
};

// Identifies a request until its last reply.
struct ipc_ticket {
    uint64_t request_id;
    bool wanted; // false: replies are dropped
};

struct ipc_call {
    struct ipc_ticket ticket;
    uint32_t method;
    ProtobufCMessage *request; // of the method's type; the port may take parts of the message
};

// The implementation behind a socket. Callbacks may reply and hang up.
struct ipc_port {
    const struct ipc_service *service;
    bool takes_fds; // requests may carry descriptors; otherwise descriptors are refused or dropped
    // A peer has connected. *ret_state is the port's state for the peer. Returns 0, or a negative
    // errno to refuse the peer.
    int (*opened)(void *userdata, struct ipc_peer *peer, void **ret_state);
    void (*invoke)(void *state, const struct ipc_call *call);
    // ipc_peer_has_room() was false and has become true. May be NULL.
    void (*drained)(void *state);
    // The peer is gone: free `state` and send no more replies.
    void (*closed)(void *state);
    void *userdata;
};

int ipc_server_new(const struct ipc_server_env *env, struct ipc_server **ret);
// Hangs up on all peers. Takes NULL. Returns NULL.
struct ipc_server *ipc_server_free(struct ipc_server *server);

// Accepts connections on `fd`. The server owns `fd` on success. `port` is borrowed.
int ipc_server_listen(struct ipc_server *server, int fd, const struct ipc_access *access,
                      const struct ipc_port *port);

// Takes over a connected socket, also on failure. Applies the limits and access rules of accepted
// sockets. Returns 0 or a negative errno: -EACCES, -EMFILE.
int ipc_server_adopt(struct ipc_server *server, int fd, const struct ipc_access *access,
                     const struct ipc_port *port);

size_t ipc_server_n_peers(const struct ipc_server *server);

const struct ipc_credentials *ipc_peer_credentials(const struct ipc_peer *peer);

// Returns a name for messages, for example "perfetto[123]", borrowed from the peer.
const char *ipc_peer_name(const struct ipc_peer *peer);

// Returns the descriptor of a request (owned by the caller), or -1. A descriptor that is not taken
// is closed.
int ipc_peer_take_fd(struct ipc_peer *peer);

// Sends a reply. `reply` NULL: the call failed. `has_more`: further replies follow. A message that
// does not fit into a frame counts as a failure.
void ipc_peer_reply(struct ipc_peer *peer, const struct ipc_ticket *ticket,
                    const ProtobufCMessage *reply, bool has_more);

// Sends an encoded reply.
void ipc_peer_reply_bytes(struct ipc_peer *peer, const struct ipc_ticket *ticket, const void *bytes,
                          size_t size, bool has_more);

// Returns whether a stream may continue. If false, drained() will be called.
bool ipc_peer_has_room(struct ipc_peer *peer);

// Ends the connection after the running callback.
void ipc_peer_hang_up(struct ipc_peer *peer);
