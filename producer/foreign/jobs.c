// SPDX-License-Identifier: Apache-2.0
//
// The jobs of a helper, by their number. Each is at home where its answer is used.
#include "producer/foreign/job.h"

#include "producer/sources/heap/summons_job.h"

const struct foreign_job foreign_jobs[FOREIGN_JOBS_MAX] = {
    [FOREIGN_SUMMONS_OPEN] = {"summons", summons_open_job, FOREIGN_GROUP_SUMMONS},
    [FOREIGN_SUMMONS_CLOSE] = {"summons", summons_close_job, FOREIGN_GROUP_SUMMONS},
};
