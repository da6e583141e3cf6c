// SPDX-License-Identifier: Apache-2.0
//
// Signals that end a conversion in good order, so that nothing half done is left.
#pragma once

#include <stdbool.h>

// From now on SIGINT, SIGTERM and SIGHUP are only noted, but for those that are ignored: who said
// nohup means it.
void interrupts_note(void);

// They end the program again. False: one came meanwhile.
bool interrupts_let(void);

// Whether none has come: fit for struct conversion.
bool interrupts_none(void *userdata);
