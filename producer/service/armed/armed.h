// SPDX-License-Identifier: Apache-2.0
//
// Keeps the trace configs (*.cfg) of some places armed. Each config has exactly one session of the
// service, which is made anew whenever it has ended. The recording goes into a file (armed_file.h).
// The places are watched: new configs are armed, changed configs are armed anew, and the sessions
// of removed configs are ended.
//
// A config with an error gets one message and is left alone until it changes. A session that cannot
// be made, or that ends soon after its start, is tried again after one second, then two, four, up
// to five minutes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/service/service.h"
#include "producer/service/session/clock_set.h"
#include "producer/trace/disk.h"

#define ARMED_SUFFIX      ".cfg"
#define ARMED_CONFIGS_MAX 64
#define ARMED_DELAY_MIN   NSEC_PER_SEC
#define ARMED_DELAY_MAX   (300 * NSEC_PER_SEC)
#define ARMED_EARLY       (10 * NSEC_PER_SEC) // a session that ends earlier ended too early

#define ARMED_PLACES_MAX 8

// A place is one config, if its path ends with ".cfg"; otherwise a folder whose *.cfg files are
// armed. If configs have the same name, the one in the first place counts.
struct armed_place {
    const char *path; // borrowed
    bool optional;    // the place may be missing
};

// All borrowed. Must outlive the armed configs.
struct armed_options {
    struct service *service;
    struct disk *disk; // for work that waits for disks; NULL: the caller waits
    struct loop *loop; // NULL: the owner calls armed_run_due() and armed_reload() itself
    const struct clock_reader *clock;
    const struct log *log;
    const struct armed_place *places; // of the configs
    size_t n_places;
    const char *output_folder; // for configs without output_path
    uint32_t max_files;        // per config; 0: no limit
    uint64_t max_bytes;        // of the files of one config; 0: no limit
    const char *const
        *source_names;     // data sources that configs may name, NULL-terminated; NULL: not checked
    uint64_t memory_bytes; // of the machine: buffers must fit; 0: not checked
    // Called when a trace is complete and has its name. May be NULL.
    void (*wrote)(void *userdata, const char *path);
    void *userdata; // of wrote
};

struct armed;

// Arms all configs. Fails only if a place that is not optional cannot be read.
int armed_new(const struct armed_options *options, struct armed **ret, struct err *err);
// Ends everything at once: data that are not in a file yet are lost.
struct armed *armed_free(struct armed *armed); // takes NULL, returns NULL

// Looks at all configs again, also at those that were left alone, and tries without delay.
void armed_reload(struct armed *armed);

// Ends all sessions in order and makes no new ones. Calls `done` when all files are complete, which
// may be before this returns.
void armed_end(struct armed *armed, void (*done)(void *userdata), void *userdata);

struct armed_counts {
    size_t configs, live, left_alone;
    size_t closing;     // files that are being completed
    uint64_t files;     // written so far
    uint64_t recovered; // traces of earlier daemons that were recovered since the start
};
void armed_get_counts(const struct armed *armed, struct armed_counts *ret);

// Returns the folders with finished traces of the configs, at most `n`. Borrowed from the entries,
// and valid until the configs change.
size_t armed_list_folders(const struct armed *armed, struct service_trace_folder *ret, size_t n);

// For owners without a loop.
nsec_t armed_next_due(const struct armed *armed); // NSEC_MAX: never
void armed_run_due(struct armed *armed);
