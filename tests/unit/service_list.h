// SPDX-License-Identifier: Apache-2.0
//
// Lists the sessions of a service, also sessions that clients no longer see.
#pragma once

#include "producer/service/service_private.h"

struct service_session_info {
    uint64_t id;
    const char *name, *state; // borrowed until the next call
    uid_t uid;
    uint64_t buffer_bytes;
};

// Fills at most `n` of *ret. Returns the number of sessions.
static inline size_t service_list(const struct service *service, struct service_session_info *ret,
                                  size_t n)
{
    static const char *const states[] = {"configured", "armed",   "recording",
                                         "triggered",  "writing", "done"};
    for (size_t i = 0; i < n && i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        ret[i] = (struct service_session_info){
            .id = member->id,
            .name = session_name(member),
            .state = member->is_clone ? "snapshot"
                     : member->is_leaving
                         ? "leaving"
                         : states[__builtin_ctz(session_get_state(member->session))],
            .uid = member->uid,
            .buffer_bytes = session_buffer_bytes(member->session),
        };
    }
    return service->members.n;
}
