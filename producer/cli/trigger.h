// SPDX-License-Identifier: Apache-2.0
//
// Fires triggers, for `mmtrace trigger` and for configs with activate_triggers.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define TRIGGER_UNHEARD 1

// Fires the triggers in all services, and prints the fate of each trigger without effect. Returns
// 0; TRIGGER_UNHEARD if a service reports that no session waits for one of the triggers; or a
// negative errno with text. With `optional`, an unheard trigger is not a failure, and nothing is
// printed.
int trigger_tell(char *const *names, size_t n_names, bool optional, struct err *err);
