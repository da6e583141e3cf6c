// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of an armed session (CLONE_SNAPSHOT) on its way into a file of its own.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/service.h"

struct armed_snapshot {
    struct armed_snapshot *next; // the owner's
    struct service *service;     // borrowed
    uint64_t session_id;         // of the copy; 0: there is none
    time_t taken;
    char *stem; // owned: of the file's name, with the trigger's
    struct armed_file file;
    bool waits;   // for room
    bool written; // all that will be
    int result;   // of that
    struct err err;
};

// Copies the session's buffers at this moment and has them written. `trigger` is the one that asked
// for it; its name follows folder->stem in the file's name, and the limits of the folder hold for
// the snapshots of each trigger. So frequent ones do not push out rare ones. The consumer hears of
// the end by the copy's id and tells armed_snapshot_written().
int armed_snapshot_take(struct service *service, const struct service_consumer *consumer,
                        uint64_t session_id, const struct service_trigger_hit *trigger,
                        const struct armed_folder *folder, time_t now, struct armed_snapshot **ret,
                        struct err *err);

void armed_snapshot_written(struct armed_snapshot *snapshot, int result, const char *text);

// Of one that is written: gives the file its name, or says why it is not complete.
int armed_snapshot_finish(struct armed_snapshot *snapshot, const struct armed_folder *folder,
                          struct err *err);

// True for the snapshots of a config whose files begin with `stem`: STEM-TRIGGER-TIME.pftrace.
bool armed_snapshot_is_ours(const char *name, const char *stem);

// STEM-TRIGGER, fit for the name of a file. NULL: no memory. The caller's.
char *armed_snapshot_stem(const char *stem, const char *trigger);

// What has no name is gone. Takes NULL, returns NULL.
struct armed_snapshot *armed_snapshot_free(struct armed_snapshot *snapshot);
