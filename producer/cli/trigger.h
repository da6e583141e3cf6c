// SPDX-License-Identifier: Apache-2.0
//
// Firing triggers, for `mmtrace trigger` and for configs that do it (activate_triggers).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define TRIGGER_UNHEARD 1

// Tells all services, and prints what became of each trigger that did nothing. 0, or
// TRIGGER_UNHEARD: no session waits for one of them, as far as the services tell. `optional`: an
// unheard trigger is no failure, and nothing is printed.
int trigger_tell(char *const *names, size_t n_names, bool optional, struct err *err);
