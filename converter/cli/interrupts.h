// SPDX-License-Identifier: Apache-2.0
//
// Signals that cancel a conversion, so that its temporary files are removed.
#pragma once

#include <stdbool.h>

// From now on, SIGINT, SIGTERM and SIGHUP are only recorded. An ignored signal stays ignored
// (nohup).
void interrupts_note(void);

// From now on, the signals end the program again. Returns false if a signal has come.
bool interrupts_let(void);

// Returns true if no signal has come. Fits conversion.goes_on.
bool interrupts_none(void *userdata);
