// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/limit_options.h"

#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/ground/budget.h"

bool limit_option_take(const char *verb, int option, const char *text, struct limits *limits,
                       int *ret_code)
{
    bool is_memory = option == OPTION_MAX_MEMORY;
    uint64_t min = is_memory ? BUDGET_MEMORY_MIN : BUDGET_OUTPUT_MIN;
    uint64_t size;
    if (!is_memory && option != OPTION_MAX_OUTPUT)
        return false;
    *ret_code = EXIT_DONE;
    if (str_parse_size(text, &size) == 0 && size >= min)
        *(is_memory ? &limits->memory : &limits->output) = size;
    else
        *ret_code = usage_error(verb, "%s: not a size of at least %d MiB, as 512m or 2g", text,
                                (int)(min >> 20));
    return true;
}
