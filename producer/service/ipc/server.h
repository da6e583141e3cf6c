// SPDX-License-Identifier: Apache-2.0
//
// Listening sockets and those who connect to them. Speaks frames and methods; what a method does is
// the business of the port behind the socket. A peer that breaks the protocol, stalls or does not
// read is hung up on, and nobody else notices.
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

// Each 0: the default.
struct ipc_server_limits {
    uint32_t max_peers;         // in all; default 512. The last 16 are for root.
    uint32_t max_peers_per_uid; // of one user other than root; default 128
    nsec_t first_frame_timeout; // for the first frame after connecting; default 30 s
    nsec_t frame_timeout;       // for the rest of a frame that has begun; default 10 s
    nsec_t write_timeout;       // for some of what waits to be sent; default 30 s
};

struct ipc_server_env {
    struct loop *loop;     // borrowed
    const struct log *log; // borrowed; may be NULL
    struct ipc_server_limits limits;
};

// Identifies a request until it has its last reply.
struct ipc_ticket {
    uint64_t request_id;
    bool wanted; // false: nobody waits, replies are dropped
};

struct ipc_call {
    struct ipc_ticket ticket;
    uint32_t method;
    ProtobufCMessage *request; // of the method's type; the port may take parts out of it
};

// What is behind a socket. Callbacks may reply and hang up as they like.
struct ipc_port {
    const struct ipc_service *service;
    bool takes_fds; // its requests may have descriptors; others are refused or dropped
    // A peer has come. *ret_state is the port's own for this peer. 0, or a negative errno: no.
    int (*opened)(void *userdata, struct ipc_peer *peer, void **ret_state);
    void (*invoke)(void *state, const struct ipc_call *call);
    // There is room again after ipc_peer_has_room() was false. May be NULL.
    void (*drained)(void *state);
    // The peer is gone, `state` has to go. No replies any more.
    void (*closed)(void *state);
    void *userdata;
};

int ipc_server_new(const struct ipc_server_env *env, struct ipc_server **ret);
// Hangs up on all peers. Takes NULL, returns NULL.
struct ipc_server *ipc_server_free(struct ipc_server *server);

// Accepts on `fd`, which the server owns if it succeeds. `port` is borrowed.
int ipc_server_listen(struct ipc_server *server, int fd, const struct ipc_access *access,
                      const struct ipc_port *port);

// Takes over a connected socket, also on failure; limits and access as for an accepted one.
// -EACCES, -EMFILE.
int ipc_server_adopt(struct ipc_server *server, int fd, const struct ipc_access *access,
                     const struct ipc_port *port);

size_t ipc_server_n_peers(const struct ipc_server *server);

const struct ipc_credentials *ipc_peer_credentials(const struct ipc_peer *peer);

// "perfetto[123]", for people; lives as long as the peer.
const char *ipc_peer_name(const struct ipc_peer *peer);

// The descriptor that came along with a request, -1 if none; the caller's from here. One that
// nobody takes is closed.
int ipc_peer_take_fd(struct ipc_peer *peer);

// Replies; NULL: the call has failed. With `has_more` further ones follow. A message that does not
// fit into a frame counts as a failure.
void ipc_peer_reply(struct ipc_peer *peer, const struct ipc_ticket *ticket,
                    const ProtobufCMessage *reply, bool has_more);

// The same with a message that is encoded already.
void ipc_peer_reply_bytes(struct ipc_peer *peer, const struct ipc_ticket *ticket, const void *bytes,
                          size_t size, bool has_more);

// Whether a stream may go on; if not, drained() will be called.
bool ipc_peer_has_room(struct ipc_peer *peer);

// Ends the connection after the callback that is running.
void ipc_peer_hang_up(struct ipc_peer *peer);
