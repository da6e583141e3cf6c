// SPDX-License-Identifier: Apache-2.0
//
// Keeps the trace configs (*.cfg) of some places armed. Each config has exactly one session of the
// service. When the session ends, a new one is made. The recording goes into a file (armed_file.h).
// The places are watched: new configs are armed, changed configs are armed again, and the sessions
// of removed configs end.
//
// A config with an error gets one message and is ignored until the config changes. If a session
// cannot be made, or ends soon after its start, the next attempt follows after one second, then
// two, four, up to five minutes.
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
#define ARMED_EARLY       (10 * NSEC_PER_SEC) // a session that lives shorter ended too early

#define ARMED_PLACES_MAX 8

// A place is one config if its path ends with ".cfg"; otherwise a folder whose *.cfg files are
// armed. If configs have the same name, the config in the first place counts.
struct armed_place {
    const char *path; // borrowed
    bool optional;    // the place may be missing
};

// All members are borrowed and must outlive the armed configs.
struct armed_options {
    struct service *service;
    struct disk *disk; // for work that waits for disks; NULL: the caller waits
    struct loop *loop; // NULL: the owner calls armed_run_due() and armed_reload() itself
    const struct clock_reader *clock;
    const struct log *log;
    const struct armed_place *places; // of the configs
    size_t n_places;
    const char *output_folder;       // for configs without output_path
    uint32_t max_files;              // per config; 0: no limit
    uint64_t max_bytes;              // bytes of the files of one config; 0: no limit
    const char *const *source_names; // known data sources, NULL-terminated; NULL: not checked
    uint64_t memory_bytes;           // memory of the machine, which limits buffers; 0: not checked
    // Called when a trace is complete and has its name. May be NULL.
    void (*wrote)(void *userdata, const char *path);
    void *userdata; // of wrote
};

struct armed;

// Arms all configs. Returns 0 or a negative errno with text. Fails only if a place that is not
// optional cannot be read, or if memory runs out.
int armed_new(const struct armed_options *options, struct armed **ret, struct err *err);
// Ends all sessions at once: data that are not in a file yet are lost.
struct armed *armed_free(struct armed *armed); // takes NULL, returns NULL

// Looks at all configs again, also at ignored configs, and tries without delay.
void armed_reload(struct armed *armed);

// Ends all sessions in order and makes no new ones. Calls `done` when all files are complete,
// perhaps before armed_end() returns.
void armed_end(struct armed *armed, void (*done)(void *userdata), void *userdata);

struct armed_counts {
    size_t configs, live, left_alone;
    size_t closing;     // files that are being completed
    uint64_t files;     // written so far
    uint64_t recovered; // recovered traces of earlier daemons
};
void armed_get_counts(const struct armed *armed, struct armed_counts *ret);

// Lists the folders with finished traces of the configs, at most `n`. Returns their number. The
// texts are borrowed from the entries, and valid until the configs change.
size_t armed_list_folders(const struct armed *armed, struct service_trace_folder *ret, size_t n);

// For owners without a loop: armed_next_due() returns the time of the next armed_run_due().
nsec_t armed_next_due(const struct armed *armed); // NSEC_MAX: never
void armed_run_due(struct armed *armed);
