// SPDX-License-Identifier: Apache-2.0
//
// States of importers, for each machine of the trace. See importer.h.
#pragma once

#include "converter/import/import.h"

// Numbers the importers, so that importer_state() finds their states.
void importers_index(struct import *im);

// Makes `number` the current machine. Starts the importers of a new machine.
void machines_enter(struct import *im, uint32_t number, uint32_t raw_id);

// Functions of importers that are called for each machine.
enum machine_hook { MACHINE_START, MACHINE_INDEXED, MACHINE_FINISH, MACHINE_WRITE };

// Calls the hook of all importers for each machine. The machine is the current machine during its
// calls. Stops when the conversion must end.
void machines_call(struct import *im, enum machine_hook hook);

void machines_done(struct import *im);
