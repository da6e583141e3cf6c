// SPDX-License-Identifier: Apache-2.0
//
// Expressions are POSIX extended expressions and must match the producer's whole name, as in
// Perfetto. Expressions are checked when the session is made: an invalid expression is an error in
// the config and is reported to its author, not found at the first trigger.
#include "producer/service/triggers/trigger_rules.h"

#include "common/str.h"
#include "producer/service/triggers/name_regex.h"

const char *trigger_rules_pattern(const trigger_rule *rule)
{
    return rule->producer_name_regex && *rule->producer_name_regex ? rule->producer_name_regex
                                                                   : NULL;
}

int trigger_rules_check(const Pb__TraceConfig *config, struct err *err)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++) {
        const char *pattern = trigger_rules_pattern(triggers->triggers[i]);
        int r = pattern ? name_regex_check(pattern, err) : 0;
        if (r < 0)
            return err_prefix(err, r, "trigger_config.triggers[%zu].producer_name_regex", i);
    }
    return 0;
}

const trigger_rule *trigger_rules_find(const Pb__TraceConfig *config, const char *name)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++)
        if (triggers->triggers[i]->name && str_eq(triggers->triggers[i]->name, name))
            return triggers->triggers[i];
    return NULL;
}

enum trigger_verdict trigger_rules_judge(const trigger_rule *rule, double random,
                                         uint64_t n_in_24_h)
{
    if (random < rule->skip_probability)
        return TRIGGER_SKIPPED;
    if (rule->max_per_24_h > 0 && n_in_24_h >= rule->max_per_24_h)
        return TRIGGER_TOO_MANY;
    return TRIGGER_HEARD;
}
