// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of an armed session (CLONE_SNAPSHOT) on its way into a file of its own, a slice at a
// time.
#pragma once

#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "producer/service/armed_file.h"
#include "producer/service/service.h"
#include "producer/trace/trace_file.h"

struct armed_snapshot {
    struct armed_snapshot *next; // the owner's
    struct service *service;     // borrowed
    uint64_t session_id;         // of the copy; 0: it is gone
    time_t taken;
    struct armed_file file;
    struct trace_file *out; // owned; NULL: everything is in the file
};

// Copies the session's buffers at this moment. `trigger` is the one that asked for it.
int armed_snapshot_take(struct service *service, const struct service_consumer *consumer,
                        uint64_t session_id, const struct service_trigger_hit *trigger,
                        const struct armed_folder *folder, bool deflate, time_t now,
                        struct armed_snapshot **ret, struct err *err);

// Writes on. 1: there is more; 0: the file is complete and has a name; or a negative errno.
int armed_snapshot_write(struct armed_snapshot *snapshot, const struct armed_folder *folder,
                         struct err *err);

// What is not complete is gone. Takes NULL, returns NULL.
struct armed_snapshot *armed_snapshot_free(struct armed_snapshot *snapshot);
