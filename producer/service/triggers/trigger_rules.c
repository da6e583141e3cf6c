// SPDX-License-Identifier: Apache-2.0
//
// Expressions are POSIX extended expressions and must match the producer's whole name, as in
// Perfetto. Expressions are checked when the session is made: an invalid expression is an error in
// the config and is reported to its author, not found at the first trigger.
#include "producer/service/triggers/trigger_rules.h"

#include "common/str.h"
#include "producer/service/triggers/name_regex.h"

typedef Pb__TraceConfig__TriggerConfig__Trigger trigger_rule;

static const char *pattern_of(const trigger_rule *rule)
{
    return rule->producer_name_regex && *rule->producer_name_regex ? rule->producer_name_regex
                                                                   : NULL;
}

int trigger_rules_check(const Pb__TraceConfig *config, struct err *err)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++) {
        const char *pattern = pattern_of(triggers->triggers[i]);
        int r = pattern ? name_regex_check(pattern, err) : 0;
        if (r < 0)
            return err_prefix(err, r, "trigger_config.triggers[%zu].producer_name_regex", i);
    }
    return 0;
}

static const trigger_rule *find_rule(const Pb__TraceConfig *config, const char *name)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++)
        if (triggers->triggers[i]->name && str_eq(triggers->triggers[i]->name, name))
            return triggers->triggers[i];
    return NULL;
}

enum trigger_verdict trigger_rules_judge(const Pb__TraceConfig *config, const char *name,
                                         const char *producer_name, double random,
                                         uint64_t n_in_24_h,
                                         const Pb__TraceConfig__TriggerConfig__Trigger **ret)
{
    const trigger_rule *rule = find_rule(config, name);
    const char *pattern = rule ? pattern_of(rule) : NULL;
    if (!rule || (pattern && !(producer_name && name_regex_matches(pattern, producer_name))))
        return TRIGGER_UNKNOWN;
    *ret = rule;
    if (random < rule->skip_probability)
        return TRIGGER_SKIPPED;
    if (rule->max_per_24_h > 0 && n_in_24_h >= rule->max_per_24_h)
        return TRIGGER_TOO_MANY;
    return TRIGGER_HEARD;
}
