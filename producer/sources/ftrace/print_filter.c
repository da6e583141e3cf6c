// SPDX-License-Identifier: Apache-2.0
//
// Texts come from any process that may write to trace_marker, so nothing is assumed about them.
#include "producer/sources/ftrace/print_filter.h"

#include <ctype.h>
#include <string.h>

static bool skip_prefix(const char **text, size_t *size, const char *prefix)
{
    size_t length = prefix ? strlen(prefix) : 0;
    if (length > *size || memcmp(*text, prefix ? prefix : "", length) != 0)
        return false;
    *text += length;
    *size -= length;
    return true;
}

// Matches "TYPE|PID|PREFIX...", as atrace writes it.
static bool atrace_matches(const Pb__FtraceConfig__PrintFilter__Rule__AtraceMessage *message,
                           const char *text, size_t size)
{
    if (!skip_prefix(&text, &size, message->type) || !skip_prefix(&text, &size, "|"))
        return false;
    while (size && isdigit((unsigned char)*text)) {
        text++;
        size--;
    }
    return skip_prefix(&text, &size, "|") && skip_prefix(&text, &size, message->prefix);
}

static bool rule_matches(const Pb__FtraceConfig__PrintFilter__Rule *rule, const char *text,
                         size_t size)
{
    switch (rule->match_case) {
    case PB__FTRACE_CONFIG__PRINT_FILTER__RULE__MATCH_ATRACE_MSG:
        return atrace_matches(rule->atrace_msg, text, size);
    case PB__FTRACE_CONFIG__PRINT_FILTER__RULE__MATCH_PREFIX:
        return skip_prefix(&text, &size, rule->prefix);
    default:
        return true;
    }
}

bool print_filter_allows(const Pb__FtraceConfig__PrintFilter *filter, const char *text, size_t size)
{
    for (size_t i = 0; i < filter->n_rules; i++)
        if (rule_matches(filter->rules[i], text, size))
            return filter->rules[i]->has_allow && filter->rules[i]->allow;
    return true;
}
