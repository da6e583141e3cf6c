// SPDX-License-Identifier: Apache-2.0
#include "common/task_state.h"

#include <ctype.h>
#include <stdio.h>

#define VERSION_DEFAULT KERNEL_VERSION(4, 4) // of traces without a version

struct state_bit {
    uint32_t bit;
    char letter;
};

uint32_t kernel_version_of(const char *release, size_t size)
{
    uint32_t parts[2] = {0};
    size_t i = 0;
    for (size_t n = 0; n < 2; n++, i++) {
        if (i >= size || !isdigit((unsigned char)release[i]))
            return 0;
        for (; i < size && isdigit((unsigned char)release[i]); i++)
            parts[n] = (parts[n] * 10 + (uint32_t)(release[i] - '0')) & 0xffff;
        if (n == 0 && (i >= size || release[i] != '.'))
            return 0;
    }
    return KERNEL_VERSION(parts[0], parts[1]);
}

static size_t letters_add(const struct state_bit *known, uint32_t bits, char separator, char *text,
                          size_t n)
{
    for (; known->letter; known++) {
        if (!(bits & known->bit))
            continue;
        if (separator && n)
            text[n++] = separator;
        text[n++] = known->letter;
    }
    return n;
}

size_t task_state_text(uint32_t version, int64_t prev_state, char separator,
                       char ret[TASK_STATE_SIZE])
{
    static const struct state_bit common[] = {
        {0x01, 'S'}, {0x02, 'D'}, {0x04, 'T'}, {0x08, 't'}, {0x10, 'X'}, {0x20, 'Z'}, {0},
    };
    static const struct state_bit since_4_14[] = {{0x40, 'P'}, {0x80, 'I'}, {0}};
    static const struct state_bit before[] = {
        {0x200, 'P'}, {0x40, 'x'}, {0x80, 'K'}, {0x100, 'W'}, {0x400, 'N'}, {0},
    };
    uint32_t bits = (uint32_t)prev_state & 0xffff, preempted = 0x100;
    const struct state_bit *more = since_4_14;
    version = version ? version : VERSION_DEFAULT;
    ret[0] = '\0';
    if (version >= KERNEL_VERSION(4, 14)) {
        if (bits & 0xfe00)
            return 0;
    } else {
        more = before;
        preempted = version >= KERNEL_VERSION(4, 8) ? 0x1000 : 0x800;
        if ((bits & 0x7ff) == 0x402) // TASK_IDLE: uninterruptible, no load
            return (size_t)snprintf(ret, TASK_STATE_SIZE, "I");
    }
    size_t n = letters_add(common, bits, separator, ret, 0);
    n = letters_add(more, bits, separator, ret, n);
    if (!n)
        return (size_t)snprintf(ret, TASK_STATE_SIZE, bits & preempted ? "R+" : "R");
    ret[n] = '\0';
    return n;
}
