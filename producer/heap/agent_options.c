// SPDX-License-Identifier: Apache-2.0
//
// The three options of the original agent go by position, and may be left out or empty. A named
// option can stand anywhere. Anything else is refused: a misspelt option that is ignored would only
// be noticed after the run.
//
// The option `trace` names the socket of native programs. The socket of VMs has this name with a
// suffix.
#include "producer/heap/agent_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/heap/heap_abi.h"

#ifdef __ANDROID__
#define LOG_DIR "/data/local/tmp"
#else
#define LOG_DIR "/tmp"
#endif

// Parses a decimal number in 1..max, with an optional k, m or g for bytes.
static bool number_parse(const char *text, bool units, uint64_t max, uint64_t *ret)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    unsigned int shift = 0;
    if (units && *end)
        shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (shift)
        end++;
    if (errno != 0 || *end || n == 0 || n > max >> shift)
        return false;
    *ret = (uint64_t)n << shift;
    return true;
}

static bool place_take(struct agent_options *o, unsigned int place, const char *item)
{
    uint64_t n;
    if (!item[0])
        return true;
    o->has_log |= place != 1;
    if (place == 0 && number_parse(item, false, UINT32_MAX, &n))
        o->sample_rate = (uint32_t)n;
    else if (place == 1 && number_parse(item, false, AGENT_DEPTH_MAX, &n))
        o->depth_limit = (uint32_t)n;
    else if (place == 2 && strlen(item) < sizeof(o->log_path))
        strcpy(o->log_path, item);
    else
        return false;
    return true;
}

static bool socket_take(struct agent_options *o, const char *name)
{
    if (!name[0] && (!(name = secure_getenv(HEAP_SOCKET_VARIABLE)) || !name[0]))
        name = HEAP_SOCKET_FOLDER "/" HEAP_SOCKET_FILE;
    int n = snprintf(o->socket, sizeof(o->socket), "%s" HEAP_JAVA_SUFFIX, name);
    return o->trace = n > 0 && n < (int)sizeof(o->socket);
}

static bool item_take(struct agent_options *o, unsigned int *place, const char *item)
{
    uint64_t n;
    if (str_starts_with(item, "bytes=")) {
        if (!number_parse(item + 6, true, INT32_MAX, &n))
            return false;
        o->bytes = (int32_t)n;
        return true;
    }
    if (str_starts_with(item, "perfmap="))
        return o->perf_map = number_parse(item + 8, true, INT64_MAX, &o->perf_map_max_bytes);
    if (strcmp(item, "trace") == 0 || str_starts_with(item, "trace="))
        return socket_take(o, item[5] ? item + 6 : "");
    bool *flag = strcmp(item, "lines") == 0     ? &o->lines
                 : strcmp(item, "short") == 0   ? &o->short_names
                 : strcmp(item, "perfmap") == 0 ? &o->perf_map
                 : strcmp(item, "inlined") == 0 ? &o->inlined
                 : strcmp(item, "stop") == 0    ? &o->stop
                 : strcmp(item, "live") == 0    ? &o->live
                 : strcmp(item, "once") == 0    ? &o->once
                                                : NULL;
    if (flag)
        return *flag = true;
    return place_take(o, (*place)++, item);
}

static int combination_check(const struct agent_options *o, char *why, size_t why_size)
{
    if (o->trace && (o->has_log || o->bytes || o->live))
        snprintf(why, why_size,
                 "trace writes no log: SAMPLE_RATE, LOG_PATH, bytes and live do not go with trace");
    else if (o->inlined && !o->perf_map)
        snprintf(why, why_size, "inlined goes with perfmap");
    else if (o->once && !o->trace)
        snprintf(why, why_size, "once goes with trace");
    else
        return 0;
    return -EINVAL;
}

int agent_options_parse(const char *text, int pid, struct agent_options *ret, char *why,
                        size_t why_size)
{
    char item[PATH_MAX];
    unsigned int place = 0;
    *ret = (struct agent_options){
        .sample_rate = 10, .depth_limit = 50, .perf_map_max_bytes = AGENT_PERF_MAP_MAX};
    snprintf(ret->log_path, sizeof(ret->log_path), LOG_DIR "/tiallocsample.%d.log", pid);
    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (n >= sizeof(item)) {
            snprintf(why, why_size, "an option is too long");
            return -EINVAL;
        }
        memcpy(item, text, n);
        item[n] = '\0';
        if (!item_take(ret, &place, item)) {
            snprintf(why, why_size,
                     "'%.200s' is not an option here (" AGENT_OPTIONS_USAGE
                     "; the depth is at most %d)",
                     item, AGENT_DEPTH_MAX);
            return -EINVAL;
        }
        text += n + (text[n] == ',');
    }
    return combination_check(ret, why, why_size);
}
