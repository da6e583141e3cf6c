// SPDX-License-Identifier: Apache-2.0
//
// Expressions are POSIX extended ones and must match the producer's whole name, as in Perfetto.
// They are checked when the session is made: an invalid expression is an error in the config and is
// reported to its author, instead of being found at the first trigger.
#include "producer/service/triggers/trigger_rules.h"

#include <errno.h>
#include <stdlib.h>

#include "common/str.h"
#include "producer/service/triggers/name_regex.h"

struct trigger_rule {
    const Pb__TraceConfig__TriggerConfig__Trigger *config; // borrowed
};

static int check(const struct trigger_rule *rule, size_t i, struct err *err)
{
    const char *pattern = rule->config->producer_name_regex;
    if (!pattern || !*pattern)
        return 0;
    int r = name_regex_check(pattern, err);
    return r < 0 ? err_prefix(err, r, "trigger_config.triggers[%zu].producer_name_regex", i) : 0;
}

int trigger_rules_make(const Pb__TraceConfig *config, struct trigger_rules *ret, struct err *err)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    *ret = (struct trigger_rules){0};
    if (!triggers || triggers->n_triggers == 0)
        return 0;
    struct trigger_rules rules = {.items = calloc(triggers->n_triggers, sizeof(rules.items[0]))};
    if (!rules.items)
        return err_errno(err, -ENOMEM, "triggers");
    for (size_t i = 0; i < triggers->n_triggers; i++) {
        rules.items[rules.n].config = triggers->triggers[i];
        int r = check(&rules.items[rules.n++], i, err);
        if (r < 0) {
            trigger_rules_done(&rules);
            return r;
        }
    }
    *ret = rules;
    return 0;
}

void trigger_rules_done(struct trigger_rules *rules)
{
    free(rules->items);
    *rules = (struct trigger_rules){0};
}

static const struct trigger_rule *find_rule(const struct trigger_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->n; i++)
        if (rules->items[i].config->name && str_eq(rules->items[i].config->name, name))
            return &rules->items[i];
    return NULL;
}

static bool producer_fits(const struct trigger_rule *rule, const char *name)
{
    const char *pattern = rule->config->producer_name_regex;
    return !pattern || !*pattern || name_regex_matches(pattern, name);
}

enum trigger_verdict trigger_rules_judge(const struct trigger_rules *rules, const char *name,
                                         const char *producer_name, double random,
                                         uint64_t n_in_24_h,
                                         const Pb__TraceConfig__TriggerConfig__Trigger **ret)
{
    *ret = NULL;
    const struct trigger_rule *rule = find_rule(rules, name);
    if (!rule || !producer_fits(rule, producer_name ? producer_name : ""))
        return TRIGGER_UNKNOWN;
    *ret = rule->config;
    if (random < rule->config->skip_probability)
        return TRIGGER_SKIPPED;
    if (rule->config->max_per_24_h > 0 && n_in_24_h >= rule->config->max_per_24_h)
        return TRIGGER_TOO_MANY;
    return TRIGGER_HEARD;
}
