// SPDX-License-Identifier: Apache-2.0
//
// Reports the code of the process to the recorder as soon as it is loaded: addresses get names even
// if the process ends before the recorder looks.
#pragma once

#include <link.h>
#include <stdbool.h>

#include "producer/heap/ring_writer.h"

// Forgets all reports: the next round reports all objects.
void objects_reset(void);

// One round over the loaded objects: call begin, then seen for each object, then end.
void objects_begin(struct ring_writer *ring);
void objects_seen(const struct dl_phdr_info *info);

enum objects_result {
    OBJECTS_TOLD,
    OBJECTS_GONE,  // some objects are gone: another round reports all anew
    OBJECTS_AGAIN, // the ring is full: try again
};

enum objects_result objects_end(void);
