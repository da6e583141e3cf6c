// SPDX-License-Identifier: Apache-2.0
//
// The rules by which a session accepts triggers: names, producers, probability and the limit per
// day, from its trigger_config. The caller keeps the history of a day (trigger_history.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "protos/config/trace_config.pb-c.h"

typedef Pb__TraceConfig__TriggerConfig__Trigger trigger_rule;

// Returns 0, or -EINVAL with the field's path if a producer_name_regex is not an expression.
int trigger_rules_check(const Pb__TraceConfig *config, struct err *err);

// The rules apply in this order. The verdict holds only for the moment.
enum trigger_verdict {
    TRIGGER_UNKNOWN,  // the session has no trigger of this name for this producer
    TRIGGER_SKIPPED,  // by skip_probability
    TRIGGER_TOO_MANY, // by max_per_24_h
    TRIGGER_HEARD,
};

// Returns the config's trigger of this name, or NULL.
const trigger_rule *trigger_rules_find(const Pb__TraceConfig *config, const char *name);
// Returns the expression for the names of producers, or NULL: triggers of all producers count.
const char *trigger_rules_pattern(const trigger_rule *rule);
// Judges a trigger whose producer's name matches. `random` is in [0, 1). `n_in_24_h` is the number
// of triggers of this name in the last 24 hours.
enum trigger_verdict trigger_rules_judge(const trigger_rule *rule, double random,
                                         uint64_t n_in_24_h);
