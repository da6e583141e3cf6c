// SPDX-License-Identifier: Apache-2.0
//
// Which code is where in the process: told to the recorder when it comes, so that addresses have
// names also when the process is gone before anybody looks.
#pragma once

#include <link.h>
#include <stdbool.h>

#include "producer/heap/ring_writer.h"

// The whole list has to be told again.
void objects_reset(void);

// A round over the loaded objects: begin, one call for each, end.
void objects_begin(struct ring_writer *ring);
void objects_seen(const struct dl_phdr_info *info);

enum objects_result {
    OBJECTS_TOLD,
    OBJECTS_GONE,  // some are not there any more: another round tells all anew
    OBJECTS_AGAIN, // the ring is full
};

enum objects_result objects_end(void);
