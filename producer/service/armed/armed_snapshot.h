// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of an armed session (CLONE_SNAPSHOT), while its file is being written.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/service.h"

struct armed_snapshot {
    struct armed_snapshot *next; // next in the owner's list
    struct service *service;     // borrowed
    uint64_t session_id;         // session of the copy; 0: none
    time_t taken;
    char *stem; // owned: stem of the file's name, with the trigger's name
    struct armed_file file;
    bool waits;   // waits for room
    bool written; // writing is over
    int result;   // result of the writing
    struct err err;
};

// Copies the session's buffers now and starts to write them. `trigger` is the trigger of the
// snapshot. Its name follows folder->stem in the file's name. The folder's limits hold for the
// snapshots of each trigger separately, so that frequent triggers do not displace rare triggers.
// The service reports the end of the writing to the consumer, with the session id of the copy. The
// consumer then calls armed_snapshot_written().
int armed_snapshot_take(struct service *service, const struct service_consumer *consumer,
                        uint64_t session_id, const struct service_trigger_hit *trigger,
                        const struct armed_folder *folder, time_t now, struct armed_snapshot **ret,
                        struct err *err);

void armed_snapshot_written(struct armed_snapshot *snapshot, int result, const char *text);

// Finishes a written snapshot. Returns 0 when the file has a name, or the failure of the writing.
int armed_snapshot_finish(struct armed_snapshot *snapshot, const struct armed_folder *folder,
                          struct err *err);

// Returns true for snapshots of the config with this `stem`: STEM-TRIGGER-TIME.pftrace.
bool armed_snapshot_is_ours(const char *name, const char *stem);

// Returns STEM-TRIGGER, fit for a file name (owned by the caller), or NULL if memory ran out.
char *armed_snapshot_stem(const char *stem, const char *trigger);

// Frees the snapshot. A file without a name disappears. Takes NULL. Returns NULL.
struct armed_snapshot *armed_snapshot_free(struct armed_snapshot *snapshot);
