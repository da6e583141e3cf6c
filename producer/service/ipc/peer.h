// SPDX-License-Identifier: Apache-2.0
//
// One connection of the server. Between server.c, which lets peers in and counts them, and peer.c,
// which talks with them.
#pragma once

#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/server.h"

#define IPC_PEER_NAME_MAX 48

struct ipc_peer {
    struct ipc_server *server;   // borrowed
    const struct ipc_port *port; // borrowed
    void *state;                 // the port's
    int fd;                      // owned
    int passed_fd;               // owned, -1: none
    struct loop_io *io;          // owned
    struct loop_timer *timer;    // owned
    uint32_t events;             // that `io` waits for
    struct ipc_inbox inbox;
    struct ipc_outbox outbox;
    struct ipc_credentials credentials;
    char name[IPC_PEER_NAME_MAX];
    struct ipc_peer *next, *prev; // of the server's list

    bool closing;      // to be freed at the end of the callback, or by the timer
    bool last_words;   // closing as soon as the outbox is empty
    bool in_callback;  // its own; sending waits for the end of it
    bool frames_left;  // in the inbox, for the next round
    nsec_t rests;      // boot time until which no frame is handled: its user has had too many
    bool wants_room;   // drained() is due once there is room
    nsec_t connected;  // CLOCK_MONOTONIC; NSEC_MAX once a frame has come
    nsec_t incomplete; // since when part of a frame is there; NSEC_MAX: none is
    nsec_t stalled;    // since when nothing of the outbox was taken; NSEC_MAX: it is empty
};

// Takes over `fd`, also on failure.
int ipc_peer_new(struct ipc_server *server, const struct ipc_port *port, int fd,
                 const struct ipc_credentials *credentials, struct ipc_peer **ret);
struct ipc_peer *ipc_peer_free(struct ipc_peer *peer);

// server.c
struct loop *ipc_server_loop(const struct ipc_server *server);
const struct ipc_server_limits *ipc_server_get_limits(const struct ipc_server *server);
void ipc_server_peer_gone(struct ipc_server *server, struct ipc_peer *peer);
// Whether unfinished requests and unread answers of the peer's user are too many bytes.
bool ipc_server_holds_too_much(const struct ipc_server *server, const struct ipc_peer *peer);
// Whether the peer's user may have one more frame handled now.
bool ipc_server_takes_frame(struct ipc_server *server, const struct ipc_peer *peer);
// At most one line a second; the others are counted.
__attribute__((format(printf, 3, 4))) void ipc_server_complain(struct ipc_server *server,
                                                               const struct ipc_peer *peer,
                                                               const char *format, ...);
