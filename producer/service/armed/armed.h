// SPDX-License-Identifier: Apache-2.0
//
// Trace configs (*.cfg) in some places, each kept armed: as a session of the service, which is made
// anew whenever it has ended. What it recorded goes into a file (armed_file.h). The places are
// watched: configs that come, change and go are armed, armed anew, and ended. Exactly one session
// a config.
//
// A config with an error is left alone, with one message, until it changes. A session that cannot
// be made, or ends soon after it began, is tried again after a second, then after two, four, up to
// five minutes.
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
#define ARMED_EARLY       (10 * NSEC_PER_SEC) // an end before this is one too early

#define ARMED_PLACES_MAX 8

// A folder, of which every *.cfg is armed, or, where the path ends with that, one config. Of
// configs with the same name the one in the first place counts.
struct armed_place {
    const char *path; // borrowed
    bool optional;    // it need not be there
};

// Borrowed, as everything in it; outlives the armed configs.
struct armed_options {
    struct service *service;
    struct disk *disk; // what waits for disks; NULL: the caller
    struct loop *loop; // NULL: nobody sleeps, the owner calls armed_run_due() and armed_reload()
    const struct clock_reader *clock;
    const struct log *log;
    const struct armed_place *places; // of the configs
    size_t n_places;
    const char *output_folder;       // where a config says nothing else by output_path
    uint32_t max_files;              // of each config; 0: any number
    uint64_t max_bytes;              // of each config's files; 0: no limit
    const char *const *source_names; // what configs may name, NULL-terminated; NULL: not checked
    uint64_t memory_bytes;           // of the machine, which buffers must fit; 0: not checked
    // A trace is whole and has its name. NULL: nobody wants to know.
    void (*wrote)(void *userdata, const char *path);
    void *userdata; // of wrote
};

struct armed;

// Arms what is there. An error only if a place cannot be read that is not optional.
int armed_new(const struct armed_options *options, struct armed **ret, struct err *err);
// Ends what is left at once: what is not in its file yet is lost.
struct armed *armed_free(struct armed *armed); // takes NULL, returns NULL

// Looks at all configs again, also at those that are left alone, and tries without delay.
void armed_reload(struct armed *armed);

// Ends all sessions in order, and makes no more; `done` is called when their files are complete,
// perhaps at once.
void armed_end(struct armed *armed, void (*done)(void *userdata), void *userdata);

struct armed_counts {
    size_t configs, live, left_alone;
    size_t closing;     // files on their way to the disk
    uint64_t files;     // written so far
    uint64_t recovered; // of what an earlier daemon left, since the start
};
void armed_get_counts(const struct armed *armed, struct armed_counts *ret);

// Where the finished traces of the configs are, up to `n` of them. Borrowed from the entries: valid
// until the configs change.
size_t armed_list_folders(const struct armed *armed, struct service_trace_folder *ret, size_t n);

// For owners without a loop.
nsec_t armed_next_due(const struct armed *armed); // NSEC_MAX: never
void armed_run_due(struct armed *armed);
